"""Read facts from an ELF file; limit number and size of reads, as the file may be malicious."""

import io
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.construct.lib.container import Container
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, Section

from millrace.errors import MillraceError

_SECTION_LIMIT_BYTES = 1 << 30
_COMMENTS_BYTES = 1 << 16
# A server program of 60 MB needs a few hundred reads; a malicious file can cause endless reads.
_MOST_READS = 1_000_000
_MOST_NEEDED = 1_000
_MOST_NAME = 255  # NAME_MAX
_MOST_COMMENTS = 50
_MOST_COMMENT = 200


@dataclass(frozen=True)
class Elf:
    """The facts of an ELF file."""

    needed: tuple[str, ...]  # names of required shared libraries
    build_id: str | None
    comment: tuple[str, ...]  # compiler versions, without duplicates
    is_position_independent: bool  # PIE or shared library: loaded at any address
    sections: frozenset[str]
    names: bytes  # the string tables of symbols

    def has_symbol(self, name: str) -> bool:
        """Return whether the file defines or uses a function or variable of this name."""
        return b"\0" + name.encode() + b"\0" in self.names


def is_elf(path: Path) -> bool:
    """Return whether a file begins with the ELF magic number."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


@contextmanager
def opened(path: Path) -> Iterator[ELFFile]:
    """Open an ELF file. Raise OSError, or ELFError for a damaged or malicious file."""
    with _Bounded(path) as file:
        try:
            yield _WithoutHashTables(file)
        except (ELFError, MillraceError):  # MillraceError: the user interrupted
            raise
        except Exception as error:  # pyelftools fails in many ways on a damaged file
            raise ELFError(f"{type(error).__name__}: {error}") from error


def needed(path: Path) -> tuple[str, ...]:
    """Return the names of an ELF file's required libraries; empty for any other file."""
    try:
        with opened(path) as elf:
            return _needed(elf)
    except (ELFError, OSError):
        return ()


def read(path: Path) -> Elf:
    """Return the facts of a program. Raise ELFError if the file is not ELF."""
    with opened(path) as elf:
        return Elf(
            needed=_needed(elf),
            build_id=_build_id(elf),
            comment=_comment(elf),
            is_position_independent=elf.header["e_type"] == "ET_DYN",
            sections=frozenset(section.name for section in elf.iter_sections()),
            names=b"".join(
                data_of(section)
                for name in (".dynstr", ".strtab")
                if (section := elf.get_section_by_name(name)) is not None
            ),
        )


class _WithoutHashTables(ELFFile):
    """An ELF file without its symbol hash tables: parsing these takes one read per entry."""

    def _make_elf_hash_section(self, section_header: Container, name: str) -> Section:  # type: ignore[override]
        return Section(section_header, name, self)

    _make_gnu_hash_section = _make_elf_hash_section  # type: ignore[assignment]


class _Bounded(io.BufferedReader):
    """A file that raises ELFError after a limited number of reads."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._left = _MOST_READS

    def read(self, size: int | None = -1, /) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise ELFError(f"parsing needs more than {_MOST_READS:,} read operations")
        return super().read(size)


def data_of(section: Section, most_bytes: int | None = None) -> bytes:
    """Return a section, or its first ``most_bytes``. Raise ELFError if too large or compressed."""
    size = section.data_size if most_bytes is None else min(section.data_size, most_bytes)
    if section.compressed or size > _SECTION_LIMIT_BYTES:
        kind = "compressed " if section.compressed else ""
        raise ELFError(
            f"section {section.name!r} is too large or compressed: {section.data_size} {kind}bytes"
        )
    if section["sh_type"] == "SHT_NOBITS":
        return b""
    section.stream.seek(section["sh_offset"])
    data: bytes = section.stream.read(size)
    return data


def _needed(elf: ELFFile) -> tuple[str, ...]:
    dynamic = elf.get_section_by_name(".dynamic")
    if not isinstance(dynamic, DynamicSection):
        return ()
    names: list[str] = []
    for tag in dynamic.iter_tags("DT_NEEDED"):
        # pyelftools sets the attribute named after the tag at run time.
        name = tag.needed  # type: ignore[attr-defined]
        if len(name) > _MOST_NAME or len(names) == _MOST_NEEDED:
            raise ELFError("too many required libraries, or a library name that is too long")
        names.append(name)
    # Ignore libraries given by path: they could be any file of this host, and servers have none.
    return tuple(name for name in names if "/" not in name)


def _build_id(elf: ELFFile) -> str | None:
    section = elf.get_section_by_name(".note.gnu.build-id")
    if not isinstance(section, NoteSection):
        return None
    for note in section.iter_notes():
        if note["n_type"] == "NT_GNU_BUILD_ID":
            return str(note["n_desc"])
    return None


def _comment(elf: ELFFile) -> tuple[str, ...]:
    section = elf.get_section_by_name(".comment")
    if section is None:
        return ()
    content = data_of(section, _COMMENTS_BYTES)
    texts = (text.decode(errors="replace").strip() for text in content.split(b"\0"))
    each_once = dict.fromkeys(text[:_MOST_COMMENT] for text in texts if text)
    return tuple(itertools.islice(each_once, _MOST_COMMENTS))
