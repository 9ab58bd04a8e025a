"""Call `millrace analyze` as a user does, in this process."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.support.called import millrace


def call(*arguments: str | Path, status: int = 0) -> tuple[str, str]:
    """Call a command of `analyze`; return stdout, and stderr with single spaces between words."""
    done = millrace("analyze", *arguments, status=status)
    return done.stdout, " ".join(done.stderr.split())


def check_refused(command: str, file: Path, text: str, said: str) -> None:
    """Check that ``command`` refuses a file of this ``text``, says so, and says what to do."""
    file.write_text(text, encoding="utf-8")
    out, err = call(command, file, status=2)
    assert out == ""
    # Long lines are broken, anywhere in the path of the file.
    assert said.replace(" ", "") in err.replace(" ", "")
    assert "hint:" in err


def write_pairs(file: Path, **treatments: Sequence[float]) -> Path:
    """Write a file of the values of each treatment, block by block."""
    lines = ["block,treatment,value"]
    longest = max(map(len, treatments.values()))
    for block in range(longest):
        for name, values in treatments.items():
            if block < len(values):
                lines.append(f"{block + 1},{name},{values[block]!r}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def noise(seed: int, blocks: int, ratio: float = 1.0, sd: float = 0.01) -> list[float]:
    source = np.random.default_rng(seed)
    return [float(1000 * ratio * math.exp(x)) for x in source.normal(0, sd, blocks)]
