"""List data sets, compute a data set's checksum, and write a data set to a file."""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from millrace import atomic_file, paths, safe_json
from millrace.errors import UserError
from millrace.loadgen import program


@dataclass(frozen=True)
class DataChecksum:
    r"""The checksum of a data set, independent of the order of rows.

    ``bytes`` is the length of the rows as text. ``checksum`` is the sum of the rows' CRC-32 without
    newlines; in SQL: ``SUM(CRC32(CONCAT_WS('\t', columns...)))``. ``data_version`` identifies the
    definition of the data set.
    """

    rows: int
    bytes: int
    checksum: int
    data_version: str


def versions() -> dict[str, str]:
    """Return the versions of the load generator, its data sets and its table generators."""
    answer = program.ask(["version"])
    sets: dict[str, str] = answer["data"]
    return {
        "load_generator": answer["load_generator"],
        "data": ", ".join(sets[name] for name in sorted(sets)),
        "tables": answer["tables"],
    }


def data_checksum(data_set: str, rows: int, seed: int) -> DataChecksum:
    """Return the checksum of a data set; it is computed once and kept in the cache directory."""
    version = _version_of(data_set)
    known = paths.cache_dir() / "data-checksums" / f"{version}-{rows}-{seed}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        return DataChecksum(**safe_json.read(known))
    answer = program.ask(["data", data_set, *_size(rows, seed), "--checksum"])
    checksum = DataChecksum(
        rows=answer["rows"],
        bytes=answer["bytes"],
        checksum=int(answer["checksum"]),
        data_version=answer["data_version"],
    )
    with contextlib.suppress(OSError):  # without a cache, it is only computed again
        atomic_file.write_text(known, json.dumps(asdict(checksum)))
    return checksum


def write_data_file(path: Path, data_set: str, rows: int, seed: int) -> None:
    """Write a data set to ``path``. On failure, remove the file; raise HostError."""
    try:
        program.ask(["data", data_set, *_size(rows, seed), "--output", str(path)])
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _version_of(data_set: str) -> str:
    sets: dict[str, str] = program.ask(["version"])["data"]
    if data_set not in sets:
        raise UserError(
            f"the load generator has no data set {data_set!r}",
            hint="use one of: " + ", ".join(sorted(sets)),
        )
    return sets[data_set]


def _size(rows: int, seed: int) -> list[str]:
    return [f"--rows={rows}", f"--seed={seed}"]
