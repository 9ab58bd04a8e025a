"""Define the records of servers, builds and configurations: plain values, no I/O."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from millrace.model.documents import Document, Items


@dataclass(frozen=True)
class Artefact:
    """A file that was downloaded or read: its coordinate, size and SHA-256 (hex)."""

    coordinate: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Provenance:
    """The origin of a build, and how it was made; None if unknown.

    ``source`` is the coordinate that was really used; ``note`` says where it is not the one asked
    for. ``async_io`` is ``libaio``, ``io_uring`` or ``none``; ``symbols`` is ``DWARF``,
    ``symbol table`` or ``dynsym``.
    """

    source: str
    artefacts: tuple[Artefact, ...]
    program_sha256: str | None = None
    build_id: str | None = None
    compiler: str | None = None
    allocator: str | None = None
    libc: str | None = None
    async_io: str | None = None
    symbols: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class InstalledServer:
    """A build on this machine, ready to boot.

    ``argv``: the command that starts the server, with the build's own loader first if needed.
    ``env``: additional environment variables.
    ``program``: the ELF file of the server.
    ``share_dir``: the directory of the error messages and the bootstrap SQL.
    ``library_dirs``: directories of libraries that replace those of the host.
    ``files``: the files of the build, with their SHA-256 at the time of installation.
    ``build_sha256``: the digest of all these files as they are now.
    ``changed``: the files that have changed since the installation; see ``servers.provenance``.
    """

    name: str
    family: str
    version: str
    base_dir: Path
    program: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    share_dir: Path
    provenance: Provenance
    library_dirs: tuple[Path, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    build_sha256: str | None = None
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttachedServer:
    """A server that the user runs; millrace never starts, stops or reconfigures it.

    ``dsn`` is ``mysql://user:password@host:port/`` or ``mysql://user:password@/?socket=PATH``; the
    password is never shown.
    """

    name: str
    family: str
    dsn: str


Server = InstalledServer | AttachedServer


def version_of(server: Server) -> str:
    """Return the version of a server that millrace installed; the caller excludes attached ones."""
    assert isinstance(server, InstalledServer)
    return server.version


@dataclass(frozen=True)
class Option:
    """A server option of a configuration.

    ``name`` has underscores (``innodb_buffer_pool_size``, ``skip_log_bin``). ``value`` is None for
    a flag without a value. If the server does not know the option, it is left out if ``optional``;
    otherwise it is an error. ``layer`` is the configuration that sets it.
    """

    name: str
    value: str | None
    optional: bool
    layer: str


def option_name(name: str) -> str:
    """Return an option's name in millrace's spelling: underscores, lower case."""
    return name.replace("-", "_").lower()


IN_ITS_PLACE = " in its place"
"""The end of the reason why an option was left out if a newer option replaces it."""


@dataclass(frozen=True)
class LeftOut:
    """An option that was not applied, and the reason.

    ``replaced_by`` is the newer option that was applied instead, if any.
    """

    option: Option
    reason: str
    replaced_by: Option | None = None


@dataclass(frozen=True)
class Configuration:
    """A configuration after layering and scaling; ``left_out`` do not fit the server's version."""

    name: str
    options: tuple[Option, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class FittedOptions:
    """A configuration fitted to one server: the applied options, and those left out."""

    configuration: str
    applied: tuple[Option, ...]
    left_out: tuple[LeftOut, ...] = ()


class ArtefactFact(Document):
    """A file from which a build was made."""

    coordinate: str
    sha256: str | None = None
    size_bytes: int | None = None


class BuildFacts(Document):
    """The facts of a build, as trials store them; only ``attached`` for an attached server."""

    attached: bool | None = None
    source: str | None = None
    artefacts: Items[ArtefactFact] | None = None
    program_sha256: str | None = None
    build_sha256: str | None = None
    changed_files: Items[str] | None = None
    build_id: str | None = None
    compiler: str | None = None
    allocator: str | None = None
    libc: str | None = None
    async_io: str | None = None
    symbols: str | None = None
    note: str | None = None


def build_facts(server: Server) -> BuildFacts:
    """Return the facts of a build, without passwords and temporary paths."""
    if isinstance(server, AttachedServer):
        return BuildFacts(attached=True)
    facts = asdict(server.provenance)
    content = {"build_sha256": server.build_sha256, "changed_files": server.changed}
    return BuildFacts.model_validate({"attached": False, **facts, **content})


@dataclass(frozen=True)
class KnownOptions:
    """The options that a server program lists, with underscores, and their printed defaults."""

    names: frozenset[str]
    defaults: Mapping[str, str] = field(default_factory=dict)
