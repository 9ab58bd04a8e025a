"""Draw the pictures of docs/verdicts.md, with the statistics that compare real runs.

PYTHONPATH=. .venv/bin/python -m docs.pictures.make
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.pictures import over_time, slices, verdicts
from docs.pictures.svg import Picture

PICTURES: Mapping[str, Callable[[], Picture]] = {
    "unit.svg": verdicts.unit,
    "turns.svg": verdicts.turns,
    "slices.svg": slices.wandering,
    "three-ways.svg": verdicts.three_ways,
    "looks.svg": verdicts.looks,
    "reach.svg": verdicts.reach,
    "many.svg": verdicts.many,
    "steady.svg": over_time.steady,
    "history.svg": over_time.history,
    "bisection.svg": over_time.bisection,
}


def main() -> None:
    directory = Path(__file__).parent
    for name, draw in PICTURES.items():
        (directory / name).write_text(draw().as_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
