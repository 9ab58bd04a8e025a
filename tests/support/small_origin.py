"""Serve a few files on loopback, with ranges and optional misbehaviour."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Origin:
    """A web server on loopback.

    ``asked`` has the path and the range of each request, ``sent`` the bytes of each answer.
    ``behave`` may answer the nth request in another way: it then returns True.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.asked: list[tuple[str, str | None]] = []
        self.sent: list[int] = []
        self.behave: Callable[[BaseHTTPRequestHandler, int], bool] = lambda request, nth: False
        self.knows_ranges = True
        origin = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                origin.asked.append((self.path, self.headers["Range"]))
                if not origin.behave(self, len(origin.asked)):
                    origin.answer(self)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler, *, cut_after: int | None = None) -> None:
        """Send the file from the requested position, or only this many bytes of it."""
        content = self.files.get(request.path)
        if content is None:
            request.send_error(404)
            return
        asked = request.headers["Range"]
        begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if asked and self.knows_ranges and begin >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.end_headers()
            return
        partial = bool(asked) and self.knows_ranges
        body = content[begin:] if partial else content
        request.send_response(206 if partial else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "HEAD":
            return
        body = body if cut_after is None else body[:cut_after]
        self.sent.append(len(body))
        request.wfile.write(body)


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[Origin]:
    """Serve until the end of the block."""
    origin = Origin(files)
    thread = threading.Thread(target=origin.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield origin
    finally:
        origin.server.shutdown()
        origin.server.server_close()
        thread.join()
