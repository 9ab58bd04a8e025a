"""Write Cargo.lock from Cargo.pinned, or renew Cargo.pinned.

usage: cargo_lock.py write [DIRECTORY]
       cargo_lock.py renew [ARGUMENT OF CARGO UPDATE...]

Cargo.pinned has the version and the checksum of each crate that a workspace is built from. It is a
Cargo.lock without its ``source`` lines: these name a registry, which is a matter of the user's own
settings and not of this repository. ``write`` asks cargo for the name of the registry and puts it
back; cargo then verifies all checksums. ``renew`` runs ``cargo update``, with no argument for the
newest versions that the manifests allow and with ``--workspace`` for what the manifests require
alone, and writes the lists of the program and of its fuzz targets.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A workspace of its own, built from the program's versions and what libFuzzer needs beside.
FUZZ = ROOT / "crates/protocol/fuzz"
LIST = "Cargo.pinned"
LOCK = "Cargo.lock"
HEADER = "# All crates, pinned and with checksums; crates/cargo_lock.py renews this list.\n"

_SOURCE = re.compile(r'^source = "(.*)"\n', re.MULTILINE)
_CHECKSUM = re.compile(r"^(?=checksum = )", re.MULTILINE)
_COMMENTS = re.compile(r"\A(?:#[^\n]*\n)*")


class LockError(Exception):
    """A list or a lock that cannot be used, or a cargo that failed."""


def source_in(lock: str) -> str | None:
    """Return the registry that a lock names first, or None if it names none."""
    found = _SOURCE.search(lock)
    return found.group(1) if found else None


def without_sources(lock: str) -> str:
    """Return the list of the crates in a lock, which must all be of one registry."""
    sources = set(_SOURCE.findall(lock))
    text = HEADER + _COMMENTS.sub("", _SOURCE.sub("", lock))
    if len(sources) > 1 or any(source in text for source in sources):
        raise LockError(f"{LOCK} has crates of several registries; {LIST} can hold those of one")
    return text


def with_source(pinned: str, source: str) -> str:
    """Return the lock for a list: each crate that has a checksum comes from ``source``."""
    line = f'source = "{source}"\n'
    return _COMMENTS.sub("", _CHECKSUM.sub(lambda _: line, pinned))


def smallest_crate(pinned: str) -> tuple[str, str]:
    """Return name and version of a listed crate that needs no other, to ask cargo about."""
    for package in tomllib.loads(pinned).get("package", []):
        if "checksum" in package and "dependencies" not in package:
            return package["name"], package["version"]
    raise LockError(f"{LIST} has no crate without dependencies")


def _cargo(*arguments: str) -> None:
    try:
        subprocess.run(["cargo", *arguments], cwd=ROOT, check=True)
    except FileNotFoundError:
        raise LockError("cargo is missing: install Rust 1.87 or newer") from None
    except subprocess.CalledProcessError as error:
        raise LockError(f"cargo {arguments[0]} failed with status {error.returncode}") from None


def _source_of_cargo(pinned: str) -> str:
    """Return the name of the registry that cargo writes into the lock of an empty package."""
    name, version = smallest_crate(pinned)
    with tempfile.TemporaryDirectory() as place:
        package = Path(place)
        manifest = package / "Cargo.toml"
        manifest.write_text(
            '[package]\nname = "asks"\nversion = "0.0.0"\n[lib]\npath = "lib.rs"\n'
            f'[dependencies]\n{name} = "={version}"\n[workspace]\n',
            encoding="utf-8",
        )
        (package / "lib.rs").touch()
        _cargo("generate-lockfile", "--quiet", "--manifest-path", str(manifest))
        source = source_in((package / LOCK).read_text(encoding="utf-8"))
    if source is None:
        raise LockError(f"cargo names no registry for {name} {version}")
    return source


def write(directory: Path) -> None:
    """Write the Cargo.lock of a workspace from the list beside its manifest."""
    pinned = (directory / LIST).read_text(encoding="utf-8")
    lock = directory / LOCK
    source = source_in(lock.read_text(encoding="utf-8")) if lock.exists() else None
    lock.write_text(with_source(pinned, source or _source_of_cargo(pinned)), encoding="utf-8")


def renew(arguments: list[str]) -> None:
    """Update both locks and write the lists from them."""
    write(ROOT)
    _cargo("update", *arguments)
    lock = (ROOT / LOCK).read_text(encoding="utf-8")
    (ROOT / LIST).write_text(without_sources(lock), encoding="utf-8")
    # Cargo keeps what a lock has, drops what is not needed, and adds what is missing.
    (FUZZ / LOCK).write_text(lock, encoding="utf-8")
    _cargo("update", "--workspace", "--manifest-path", str(FUZZ / "Cargo.toml"))
    lock = (FUZZ / LOCK).read_text(encoding="utf-8")
    (FUZZ / LIST).write_text(without_sources(lock), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the command that the arguments name, and return the exit status."""
    try:
        match arguments:
            case ["write"]:
                write(ROOT)
            case ["write", directory]:
                write(Path(directory).resolve())
            case ["renew", *update]:
                renew(update)
            case _:
                sys.stderr.write(f"{__doc__}")
                return 2
    except (LockError, OSError) as error:
        sys.stderr.write(f"cargo_lock: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
