"""A likely cause, and how its figures are written."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from millrace.analysis.certainty import Certainty

Kind = Literal[
    "environment", "build", "option", "plan", "work", "cpu", "lock", "storage", "client",
    "compression", "instructions", "tables",
]  # fmt: skip

COUNTED = 1.3
"""The weight of evidence in counters beside what moved; what moved alone weighs 1."""


@dataclass(frozen=True, kw_only=True)
class LikelyCause:
    """Something that may have made the difference in time.

    ``about`` names it within its kind, the same in every run (``binary log``, ``other processes``).
    ``sentence`` says it for people, ``clause`` without what follows from it; ``evidence`` are the
    observations behind it, a clause each.
    ``us`` is how much of the difference its evidence covers, in µs of an operation and with the
    difference's sign; ``share`` is that as a fraction of the whole difference. ``settings`` are the
    options and factors that are suspected, with their values in A and B (None: not there), and
    ``names`` what A and B call those that one of them calls otherwise, or does not have (None).
    ``may_be_most`` is false where it can have made less than half of the difference.
    A fact has no ``us`` and no ``share``.
    """

    kind: Kind
    about: str
    sentence: str
    clause: str = ""
    evidence: tuple[str, ...]
    us: float | None
    share: float | None
    settings: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    names: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    certainty: Certainty = Certainty.LIKELY
    may_be_most: bool = True


@dataclass(frozen=True)
class Finding:
    """A likely cause before ranking: ``us`` without sign, ``weight`` how specific the evidence is.

    ``clause`` begins the sentence with the fact. ``consequence`` is a further measurement.
    ``most_us`` bounds its share of the difference, with uncertain parts counted at their upper
    limit; None where ``us`` was measured to be its own.
    """

    kind: Kind
    about: str
    clause: str
    us: float
    _: KW_ONLY
    consequence: str = ""
    weight: float = 1.0
    most_us: float | None = None
    evidence: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    names: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    certainty: Certainty = Certainty.LIKELY
    may_be_most: bool = True


def us_text(us: float) -> str:
    """Return text such as ``864 µs``, ``14.2 µs``, ``0.84 µs``, ``12.4 ms``, ``1.3 s``."""
    size = abs(us)
    if size >= 1e6:
        return f"{size / 1e6:.3g} s"
    if size >= 1e4:
        return f"{size / 1e3:.3g} ms"
    return f"{size:,.0f} µs" if size >= 100 else f"{size:.3g} µs"


def share_text(share: float) -> str:
    """Return text such as ``94 %``, ``0.6 %``."""
    percent = abs(share) * 100
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.1g} %"


def count_text(count: float) -> str:
    """Return text such as ``12,400``, ``1.02``, ``0.0031``: three significant digits."""
    return f"{count:,.0f}" if abs(count) >= 1000 else f"{count:.3g}"


def listed(clauses: Sequence[str]) -> str:
    """Return text such as ``a``, ``a and b``, ``a, b and c``."""
    if len(clauses) < 2:
        return "".join(clauses)
    return f"{', '.join(clauses[:-1])} and {clauses[-1]}"


def capitalised(
    clause: str, settings: Mapping[str, object], names: Mapping[str, tuple[str | None, str | None]]
) -> str:
    """Return a clause as a sentence begins, unless it begins with the name of a setting."""
    first = clause.split(maxsplit=1)[0]
    is_name = first in settings or any(first in own for own in names.values())
    return clause if is_name else clause[0].upper() + clause[1:]
