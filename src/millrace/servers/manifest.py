"""Read and write the manifest of an installed server: all that is needed to run it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from millrace import atomic_file, safe_json
from millrace.errors import HostError, PermanentHostError
from millrace.model.documents import exact
from millrace.model.servers import InstalledServer, Provenance
from millrace.servers import provenance
from millrace.shared_directories import refuse_file_of_others

FILE = "server.json"
_VERSION = 1


@dataclass(frozen=True)
class Layout:
    """The paths of a server's parts: relative to its directory (which may move), or absolute."""

    base_dir: str
    program: str
    share_dir: str
    loader: str | None = None  # the server's own; None: the host's
    library_dirs: tuple[str, ...] = ()  # precede the host's


@exact
@dataclass(frozen=True)
class Manifest:
    """The record of an installed server; ``files`` maps paths, as in Layout, to SHA-256."""

    name: str
    family: str
    version: str
    layout: Layout
    provenance: Provenance
    files: Mapping[str, str] = field(default_factory=dict)


_MANIFEST = TypeAdapter(Manifest)


def launch(layout: Layout, directory: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the arguments and environment variables that start a server.

    With a loader of its own, the libraries are given to the loader; otherwise to the environment.
    """
    program = str(directory / layout.program)
    libraries = ":".join(str(directory / each) for each in layout.library_dirs)
    if layout.loader is not None:
        loader = str(directory / layout.loader)
        return (loader, "--inhibit-cache", "--library-path", libraries, program), {}
    return (program,), {"LD_LIBRARY_PATH": libraries} if libraries else {}


def server(manifest: Manifest, directory: Path) -> InstalledServer:
    """Return the server in ``directory``, as it was installed."""
    argv, env = launch(manifest.layout, directory)
    files = {str(directory / path): sha256 for path, sha256 in manifest.files.items()}
    return InstalledServer(
        name=manifest.name,
        family=manifest.family,
        version=manifest.version,
        base_dir=directory / manifest.layout.base_dir,
        program=directory / manifest.layout.program,
        argv=argv,
        env=env,
        share_dir=directory / manifest.layout.share_dir,
        provenance=manifest.provenance,
        library_dirs=tuple(directory / each for each in manifest.layout.library_dirs),
        files=files,
        build_sha256=provenance.digest(files) if files else None,
    )


def write(manifest: Manifest, directory: Path) -> None:
    """Write the manifest atomically. Raise PermanentHostError if it could not be read back."""
    document = {"manifest_version": _VERSION, **asdict(manifest)}
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        safe_json.parse(text)
    except safe_json.JsonRefused as error:
        raise PermanentHostError(
            f"the build of {manifest.name} has file names that cannot be stored: {error}",
            hint="download the build from its publisher, and verify its checksum",
        ) from error
    atomic_file.write_text(directory / FILE, text)


def read(directory: Path) -> Manifest | None:
    """Return the manifest in a directory; None if there is none.

    Raise HostError if the manifest is damaged, or another user could have written it.
    """
    try:
        refuse_file_of_others(directory / FILE)
        document = dict(safe_json.read(directory / FILE))
        if (version := document.pop("manifest_version")) != _VERSION:
            raise ValueError(f"manifest version is {version}, expected {_VERSION}")
        return _MANIFEST.validate_python(document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(
            f"{directory / FILE} cannot be read: {error!r}",
            hint=f"remove {directory} and install the server again",
        ) from error
