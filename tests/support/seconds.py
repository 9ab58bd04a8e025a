"""Make series of driven clients as the load generator reports them, second by second."""

import json
from collections.abc import Sequence

from millrace.store.attempt_files import parse_series
from millrace.store.records import DrivenInterval, DrivenPhase

Series = tuple[DrivenPhase | DrivenInterval, ...]


def events(
    measured: Sequence[float],
    *,
    warmup: Sequence[float] = (),
    p50_us: Sequence[float] | None = None,
    maintenance_s: float | None = None,
) -> Series:
    """Return the events of a drive with these transactions in each second of its parts.

    ``p50_us`` are the medians of the measured seconds; maintenance began after ``maintenance_s`` of
    them.
    """
    medians = [100.0] * len(warmup) + list(p50_us or [100.0] * len(measured))
    parts = ["warmup"] * len(warmup) + ["measure"] * len(measured)
    counts = zip([*warmup, *measured], parts, medians, strict=True)
    made = (
        {"type": "mark", "phase": "measure", "mark": "connected", "t_s": 0.01},
        *(
            {
                "type": "interval", "phase": "measure", "kind": "drive", "part": part,
                "t_s": second + 1.0, "duration_s": 1.0, "transactions": transactions,
                "p50_us": median,
            }
            for second, (transactions, part, median) in enumerate(counts)
        ),
        {
            "type": "phase", "name": "measure", "kind": "drive", "duration_s": float(len(measured)),
            "warmup_s": float(len(warmup)),
            **(
                {}
                if maintenance_s is None
                else {
                    "maintenance": {
                        "from_s": len(warmup) + maintenance_s,
                        "parts": [{"duration_s": maintenance_s}],
                    }
                }
            ),
        },
    )  # fmt: skip
    return parse_series("".join(f"{json.dumps(each)}\n" for each in made).encode())
