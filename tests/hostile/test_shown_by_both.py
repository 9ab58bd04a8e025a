"""Test that the load generator shows a server's words by the rules of ``millrace.shown_text``."""

import struct
import subprocess

from millrace.loadgen.program import find_load_generator
from millrace.shown_text import shown_line
from tests.support.hostile_mysql import says, serving

# In parts, because at most 1024 bytes of an error's text are kept.
_PART = 200
_BENCH = ("bench", "cleanup", "--workload=point-query")


def _bench(message: str) -> str:
    error = b"\xff" + struct.pack("<H", 1105) + b"#HY000" + message.encode()
    with serving(says(error)) as server:
        done = subprocess.run(
            [find_load_generator(), *_BENCH, f"--port={server.port}"],
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    return done.stderr.decode()


def test_python_and_the_load_generator_escape_the_same_characters() -> None:
    every = [chr(code) for code in (*range(0xD800), *range(0xE000, 0x110000))]
    hidden = {place for place, sign in enumerate(every) if shown_line(sign) != sign}
    assert len(hidden) > 250
    beside = {place + step for place in hidden for step in (-1, 1)} & set(range(len(every)))
    signs = [every[place] for place in sorted(hidden | beside)]
    for begin in range(0, len(signs), _PART):
        message = "x" + "y".join(signs[begin : begin + _PART])
        assert f"the server refused: {shown_line(message)} (error 1105" in _bench(message)
