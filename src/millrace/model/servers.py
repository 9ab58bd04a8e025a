"""Define what the rest of millrace knows about a server: plain values, no I/O."""

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
    """The origin of a build and how it was made; None stands for what is not known.

    ``source`` is the coordinate that was really used. ``async_io`` is ``libaio``, ``io_uring`` or
    ``none``; ``symbols`` is ``DWARF``, ``symbol table`` or ``dynsym``.
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


@dataclass(frozen=True)
class InstalledServer:
    """A build on this machine, ready to boot.

    ``argv`` starts the server program (with its own loader first where it needs one), ``env`` is
    what its environment must have in addition, ``program`` is the ELF file of the server,
    ``share_dir`` holds the error messages and the bootstrap SQL, ``library_dirs`` the libraries
    that take precedence over the host's. ``files`` are the files that make the build, each with its
    SHA-256 when it was installed. ``build_sha256`` is the digest of all of them as they are now,
    and ``changed`` names those that are not what was installed; see ``builds``.
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
    """A running server that is not ours: measured, never started, stopped or reconfigured.

    ``dsn`` is ``mysql://user:password@host:port/`` or ``mysql://user:password@/?socket=PATH``; the
    password is never shown.
    """

    name: str
    family: str
    dsn: str


Server = InstalledServer | AttachedServer


def version_of(server: Server) -> str:
    """Return the version of a server that millrace starts; others are not possible here."""
    assert isinstance(server, InstalledServer)
    return server.version


@dataclass(frozen=True)
class Option:
    """One server option a configuration asks for.

    ``name`` uses underscores (``innodb_buffer_pool_size``, ``skip_log_bin``); ``value`` is None for
    a bare flag. ``optional`` options are left out where the server does not know them, others are
    then refused. ``layer`` is the configuration it was written in.
    """

    name: str
    value: str | None
    optional: bool
    layer: str


def option_name(name: str) -> str:
    """Return an option's name in millrace's spelling: underscores, lower case."""
    return name.replace("-", "_").lower()


IN_ITS_PLACE = " in its place"
"""The words in the reason for which an option was left out: the server got a newer one."""


@dataclass(frozen=True)
class LeftOut:
    """An option that was not applied: optional and unknown to the server, or taken out.

    ``replaced_by`` is the newer option that the server got its value by.
    """

    option: Option
    reason: str
    replaced_by: Option | None = None


@dataclass(frozen=True)
class Configuration:
    """Layered, scaled options; ``left_out`` are those taken out for this server's version."""

    name: str
    options: tuple[Option, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class FittedOptions:
    """A configuration fitted to one server: what it is started with, and what was left out."""

    configuration: str
    applied: tuple[Option, ...]
    left_out: tuple[LeftOut, ...] = ()


class ArtefactFact(Document):
    """A file that a build was made of."""

    coordinate: str
    sha256: str | None = None
    size_bytes: int | None = None


class BuildFacts(Document):
    """A build as trials record it, as far as known; an attached server has no other fact."""

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


def build_facts(server: Server) -> BuildFacts:
    """Return the facts of a build (no password, no path that only this run has)."""
    if isinstance(server, AttachedServer):
        return BuildFacts(attached=True)
    facts = asdict(server.provenance)
    content = {"build_sha256": server.build_sha256, "changed_files": server.changed}
    return BuildFacts.model_validate({"attached": False, **facts, **content})


@dataclass(frozen=True)
class KnownOptions:
    """The options a server program says it has, with underscores, and the defaults it prints."""

    names: frozenset[str]
    defaults: Mapping[str, str] = field(default_factory=dict)
