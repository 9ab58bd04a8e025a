"""Write an archive of runs: ``millrace results export`` writes it, another machine imports it.

A zip archive, the same bytes for the same runs:

    manifest.json        {"format": "millrace.results", "version": 1,
                          "runs": [{"id", "file", "sha256"}],
                          "artefacts": [{"sha256", "size_bytes"}],
                          "history": {"file", "sha256"} or null}
    runs/0001.json       a StoredRun (millrace.store.records) as JSON, without its histograms,
                         series and observations
    artefacts/<sha256>   a file the runs refer to (histograms, series and observations are
                         such files)
    history.json         a HistoryPart (millrace.store.history_records): the runs' points, if any

The origin of runs and points is not in it: whoever imports it decides that, not the file.

A change of the records makes a new version; other versions are refused.
Files are never unpacked under a name from the archive: they are stored under the hash of their
content. An archive is checked completely before its first row is written (``run_archive``).
"""

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

from millrace.output_files import ARCHIVE, refuse_replacing
from millrace.store.artefacts import Artefacts, written_atomically
from millrace.store.checked import adapter
from millrace.store.history_records import HistoryPart
from millrace.store.records import StoredRun

FORMAT = "millrace.results"
VERSION = 1

MANIFEST = "manifest.json"
_HISTORY = "history.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_IN_FILES = {"histograms", "lag", "loops", "observations", "series"}


def write(
    path: Path,
    runs: Sequence[StoredRun],
    artefacts: Artefacts,
    history: HistoryPart,
    *,
    replace: bool = False,
) -> None:
    """Write runs, files and histories atomically.

    Raise UserError where a file is already, unless ``replace`` and it is an archive of millrace;
    and where the path leads over another user's link.
    """
    target = refuse_replacing(path, ARCHIVE, "--output", force=replace)
    artefacts_of_runs = {a.sha256: a for run in runs for of in run.attempts for a in of.artefacts}
    sizes = {sha256: a.size_bytes for sha256, a in sorted(artefacts_of_runs.items())}
    with (
        written_atomically(target, option="--output", resolved=True) as draft,
        zipfile.ZipFile(draft, "w") as archive,
    ):
        entries = []
        for number, run in enumerate(runs, start=1):
            content = adapter(StoredRun).dump_json(
                run,
                exclude={"run": {"origin"}, "attempts": {"__all__": _IN_FILES}},
                exclude_unset=True,
            )
            name = f"runs/{number:04}.json"
            _add(archive, name, content)
            entries.append(
                {"id": run.run.id, "file": name, "sha256": hashlib.sha256(content).hexdigest()}
            )
        for sha256 in sizes:
            _add(archive, f"artefacts/{sha256}", artefacts.read(sha256))
        held = None
        if history.points:
            content = adapter(HistoryPart).dump_json(history)
            _add(archive, _HISTORY, content)
            held = {"file": _HISTORY, "sha256": hashlib.sha256(content).hexdigest()}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "runs": entries,
            "artefacts": [{"sha256": name, "size_bytes": size} for name, size in sizes.items()],
            "history": held,
        }
        _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content, compress_type=zipfile.ZIP_DEFLATED)
