"""Effective server variables: what differs between two servers, and from what was asked.

Names and values are as the server shows them, options as they were written.
"""

import functools
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files

from millrace.quantities import exact_size, parse_size
from millrace.store.records import OptionRecord

_TRUE, _FALSE = frozenset({"on", "1", "true", "yes"}), frozenset({"off", "0", "false", "no"})
_LONGEST_VALUE = 40
_MOST_SWITCHES = 3
_LEAST_SIZE = 1 << 16  # from here on a number is likely to be one of bytes: 128M
_PREFIXES_ON, _PREFIXES_OFF = ("enable_",), ("skip_", "disable_")


@dataclass(frozen=True)
class _Spellings:
    """The spellings of variables that options set (see spellings/*.toml).

    ``renamed`` are names in some versions; ``switches`` are variables that an option sets with a
    name of files; ``combined`` are values that stand for several, which the variable shows too.
    """

    renamed: Mapping[str, str]
    switches: frozenset[str]
    combined: Mapping[str, frozenset[str]]


@functools.cache
def _spellings() -> _Spellings:
    sources = [
        tomllib.loads(source.read_text(encoding="utf-8"))
        for source in (files("millrace.analysis.explain") / "spellings").iterdir()
    ]
    return _Spellings(
        renamed={old: new for data in sources for old, new in data["renamed"].items()},
        switches=frozenset(name for data in sources for name in data["switches"]["names"]),
        combined={
            name: frozenset(values) for data in sources for name, values in data["combined"].items()
        },
    )


@dataclass(frozen=True)
class VariablesDiff:
    """Two servers' variables: ``different`` maps a name to A's and B's value."""

    only_a: Mapping[str, str]
    only_b: Mapping[str, str]
    different: Mapping[str, tuple[str, str]]


def differing_items(a: str, b: str) -> tuple[str, str]:
    """Return two values, or what differs in them where both are lists of at least two items.

    Items are flags such as ``mrr=on`` of ``optimizer_switch``, or names as of ``sql_mode``.
    """
    items_a, items_b = a.split(","), b.split(",")
    if min(len(items_a), len(items_b)) < 2:
        return a, b
    only_a = [item for item in items_a if item not in items_b]
    only_b = [item for item in items_b if item not in items_a]
    return (",".join(only_a), ",".join(only_b)) if only_a or only_b else (a, b)


@dataclass(frozen=True)
class Mismatch:
    """A requested option that is not effective; ``layer`` is where it was written."""

    name: str
    asked: str
    effective: str
    layer: str


def diff(
    a: Mapping[str, str], b: Mapping[str, str], *, ignored: Collection[str] = ()
) -> VariablesDiff:
    """Compare variables by name, but patterns of ``ignored`` ones; 75 and 75.000000 are equal."""
    names = sorted(n for n in {*a, *b} if not any(fnmatchcase(n, each) for each in ignored))
    return VariablesDiff(
        only_a={name: a[name] for name in names if name not in b},
        only_b={name: b[name] for name in names if name not in a},
        different={
            name: (a[name], b[name])
            for name in names
            if name in a and name in b and not _equal(a[name], b[name])
        },
    )


def asked_against_effective(
    options: Sequence[OptionRecord], effective: Mapping[str, str]
) -> tuple[Mismatch, ...]:
    """Return the applied options whose variable has another value; one without a variable is none.

    Spellings of the same value are equal: ``12G`` and 12884901888, ``1`` and ``ON``, sets in
    another order or case. A list of switches asks for those it names only.
    """
    found = []
    for option in options:
        found_variable = _variable(option, effective)
        if option.left_out is not None or found_variable is None:
            continue
        variable, asked = found_variable
        if not _same(variable, asked, effective[variable]):
            found.append(Mismatch(option.name, asked, effective[variable], option.layer))
    return tuple(found)


def requested(option: OptionRecord, effective: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that an option sets, else its own name, and the value it asks for."""
    return _variable(option, effective) or next(_readings(option))


def _equal(a: str, b: str) -> bool:
    return a == b or ((number := number_of(a)) is not None and number == number_of(b))


def _variable(option: OptionRecord, effective: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable an option is about, and the value it asks for."""
    for name, asked in _readings(option):
        for variable in (name, _spellings().renamed.get(name, name)):
            if variable in effective:
                return variable, asked
    return None


def _readings(option: OptionRecord) -> Iterator[tuple[str, str]]:
    """Yield each (variable, value) the option may mean: ``skip_log_bin``, or log_bin off."""
    name = option.name.replace("-", "_").lower().removeprefix("loose_")
    yield name, "ON" if option.value is None else option.value
    on = option.value is None or option.value.lower() in _TRUE
    for prefixes, asked in ((_PREFIXES_OFF, not on), (_PREFIXES_ON, on)):
        for prefix in prefixes:
            if name.startswith(prefix):
                yield name.removeprefix(prefix), "ON" if asked else "OFF"


def _same(variable: str, asked: str, effective: str) -> bool:
    wanted, got = asked.strip().lower(), effective.strip().lower()
    if _equal(wanted, got) or {wanted, got} <= _TRUE or {wanted, got} <= _FALSE:
        return True
    if variable in _spellings().switches:
        return got == "on" and wanted not in _FALSE
    wanted_set, got_set = _members(wanted), _members(got)
    if variable.endswith("_switch"):
        return wanted_set <= got_set
    if wanted_set & _spellings().combined.get(variable, frozenset()):
        return wanted_set <= got_set
    return wanted_set == got_set


def _members(text: str) -> set[str]:
    return {member.strip() for member in text.split(",") if member.strip()}


def shown_values(a: str | None, b: str | None) -> tuple[str, str]:
    """Return two different values of a variable as short texts that show the difference.

    Of switches (``mrr=on,hash_join=off``) those that differ; of other long texts the end.
    """
    switches = [_switches(value) for value in (a, b)]
    if all(switches):
        one, other = switches
        names = [name for name in one | other if one.get(name) != other.get(name)]
        names.sort(key=lambda name: name not in one or name not in other)
        return _some_switches(one, names), _some_switches(other, names)
    found = _short(a), _short(b)
    if a is None or b is None or found[0] != found[1]:
        return found
    pairs = enumerate(zip(a, b, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(a), len(b)))
    return _short(f"…{a[same:]}"), _short(f"…{b[same:]}")


def _switches(value: str | None) -> dict[str, str]:
    """Return the switches of text such as ``mrr=on,mrr_cost_based=off`` by name."""
    each = [text.strip().partition("=") for text in (value or "").split(",")]
    return {name: state for name, _, state in each} if all(sign for _, sign, _ in each) else {}


def _some_switches(switches: Mapping[str, str], names: Sequence[str]) -> str:
    """Return text such as ``mrr=on, hash_join=off and 2 more``."""
    named = [
        f"{name}={switches[name]}" if name in switches else f"without {name}"
        for name in names[:_MOST_SWITCHES]
    ]
    more = len(names) - len(named)
    return f"{', '.join(named)} and {more} more" if more else ", ".join(named)


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    if not value:
        return "empty"
    if value.isdigit() and int(value) >= _LEAST_SIZE:
        return exact_size(int(value))
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"


def number_of(text: str) -> float | None:
    """Return an integer, a size or a decimal fraction; None for anything else."""
    try:
        return parse_size(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
