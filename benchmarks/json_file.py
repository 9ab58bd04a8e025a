"""Write the file of a benchmark's figures."""

import json
import os
from pathlib import Path
from typing import Any

from millrace.loadgen.datasets import versions


def write(file: Path | None, benchmark: str, **figures: Any) -> None:
    """Write the figures with the command that produced them, unless ``file`` is None."""
    if file is None:
        return
    made_by = {
        "benchmark": benchmark,
        "versions": versions(),
        "processors": len(os.sched_getaffinity(0)),
    }
    file.write_text(json.dumps({**made_by, **figures}, indent=2) + "\n", encoding="utf-8")
