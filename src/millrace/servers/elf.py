"""What an ELF file says about itself: the libraries it needs, its build id, its compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, Section

_SECTION_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class Elf:
    """``comment`` is what the compilers wrote, each once; ``symbols`` the names of the tables."""

    needed: tuple[str, ...]
    build_id: str | None
    comment: tuple[str, ...]
    sections: frozenset[str]
    names: bytes

    def has_symbol(self, name: str) -> bool:
        """Whether a function or variable of this name is defined or used."""
        return b"\0" + name.encode() + b"\0" in self.names


def is_elf(path: Path) -> bool:
    """Whether the file begins as an ELF file does."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def needed(path: Path) -> tuple[str, ...]:
    """The names of the libraries an ELF file asks for (DT_NEEDED); none for any other file."""
    try:
        with path.open("rb") as file, _damage_as_error():
            return _needed(ELFFile(file))
    except (ELFError, OSError):
        return ()


def read(path: Path) -> Elf:
    """Everything millrace wants to know of a program. Raises ELFError for another kind of file."""
    with path.open("rb") as file, _damage_as_error():
        elf = ELFFile(file)
        return Elf(
            needed=_needed(elf),
            build_id=_build_id(elf),
            comment=_comment(elf),
            sections=frozenset(section.name for section in elf.iter_sections()),
            names=b"".join(
                _data(section)
                for name in (".dynstr", ".strtab")
                if (section := elf.get_section_by_name(name)) is not None
            ),
        )


@contextmanager
def _damage_as_error() -> Iterator[None]:
    """Raise whatever the library makes of a file that is damaged, or made to harm, as ELFError."""
    try:
        yield
    except ELFError:
        raise
    except Exception as error:
        raise ELFError(f"{type(error).__name__}: {error}") from error


def _data(section: Section) -> bytes:
    """Return what a section holds. Raises ELFError for one that would not fit in memory."""
    if section.data_size > _SECTION_LIMIT_BYTES:
        raise ELFError(f"the section {section.name!r} has {section.data_size} bytes")
    data: bytes = section.data()
    return data


def _needed(elf: ELFFile) -> tuple[str, ...]:
    dynamic = elf.get_section_by_name(".dynamic")
    if not isinstance(dynamic, DynamicSection):
        return ()
    # pyelftools sets the attribute named after the tag at run time.
    return tuple(tag.needed for tag in dynamic.iter_tags("DT_NEEDED"))  # type: ignore[attr-defined]


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
    texts = (text.decode(errors="replace").strip() for text in _data(section).split(b"\0"))
    return tuple(dict.fromkeys(text for text in texts if text))
