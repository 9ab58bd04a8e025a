"""Define the errors that a user can meet, and the exit status of each.

    MillraceError            what happened, where, and what to do next
    ├── UserError            2: an error in a file, an option or a request
    │   ├── ValidationError     2: several errors of one file, reported together
    │   ├── DamagedResult    2: a stored result that was changed or damaged
    │   └── UnusablePlace    2: a directory of millrace's that cannot be used
    ├── TrialFailed          3: a server or the load generator failed a step of a trial
    ├── DatabaseError        3: a server refused a statement, or a connection was lost
    ├── HostError            4: a transient error of this host (no network)
    │   ├── DiskFull         4: no space is left on a disk
    │   └── PermanentHostError   4: an error that a retry does not fix (missing file or program)
    │       └── NotServed    4: the source responds, but does not offer the server (any more)
    ├── Unavailable          this host does not support an observation; the trial runs without it
    ├── GateFailed           10 or 11: a verdict that --fail-on names
    └── Interrupted          130: Ctrl-C or SIGTERM

millrace prints these errors without a traceback; any other exception is a bug.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


class MillraceError(Exception):
    """An error that the user can understand and act on.

    ``message`` states what happened and where (file, key or server); ``hint`` is what to do.
    """

    exit_status = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(MillraceError):
    """An error in the user's input: a name, a file or an option. Exit status 2."""

    exit_status = 2


class DamagedResult(UserError):
    """An error for a stored result that is missing, changed or damaged."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="restore the file from a copy, or remove the run with `millrace results remove` "
            "and measure it again",
        )


class UnusablePlace(UserError):
    """An error for an unusable directory of millrace; it is not a failure of a server."""


@dataclass(frozen=True)
class Diagnostic:
    """An error in an input file.

    ``where`` is a key path such as ``factors.server.levels[2]``; ``line`` starts at 1, None if
    unknown. ``expected`` describes a correct value; ``nearest`` is the most similar known name.
    """

    where: str
    message: str
    expected: str | None = None
    nearest: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}, {self.where}" if self.line is not None else self.where
        text = f"{place}: {self.message}"
        if self.expected:
            text += f"; expected {self.expected}"
        if self.nearest:
            text += f"; did you mean {self.nearest!r}?"
        return text


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a mistyped one, or None if none is similar.

    If several known names contain ``name``, one of them is returned only if ``name`` misspells it.
    """
    names = list(known)
    near = next(iter(nearest_names(name, names)), None)
    with_word = names_with(name, names)
    if near is None or len(with_word) < 2:
        return near
    return near if near in with_word and _has_few_errors(str(name), near) else None


def names_with(word: object, known: Iterable[str]) -> list[str]:
    """Return the known names that contain ``word``; none if it has fewer than four letters."""
    sought = _comparable(str(word))
    if len(sought) < _LEAST_BEGINNING:
        return []
    return [each for each in known if sought in _comparable(each)]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'NAME'?`` with the most similar known name; empty if none is."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def nearest_names(name: object, known: Iterable[str]) -> list[str]:
    """Return up to three known names similar to a mistyped one, the most similar first.

    A third of the letters may be wrong, missing or swapped; a wrong first letter counts twice. A
    beginning of four letters matches as well. The load generator has the same rule
    (``crates/workload/src/validation.rs``).
    """
    meant = [
        (wrong, each) for each in known if (wrong := _wrong_letters(str(name), each)) is not None
    ]
    return [each for _, each in sorted(meant)[:3]]


_LETTERS_FOR_ERROR = 3
_LEAST_BEGINNING = 4  # letters that match every longer name that starts with them


def _wrong_letters(name: str, candidate: str) -> int | None:
    """Return the number of letters in which two names differ; None if they are not similar."""
    one, other = _comparable(name), _comparable(candidate)
    shorter, longer = sorted((one, other), key=len)
    is_beginning = len(shorter) >= _LEAST_BEGINNING and longer.startswith(shorter)
    most = len(longer) // _LETTERS_FOR_ERROR
    if not is_beginning and len(longer) - len(shorter) > most:
        return None
    wrong = _edits(one, other) + (one[:1] != other[:1])
    return wrong if is_beginning or wrong <= most else None


def _has_few_errors(name: str, candidate: str) -> bool:
    """Return whether ``name`` is a misspelling of the candidate, not only a part of it."""
    one, other = _comparable(name), _comparable(candidate)
    return _edits(one, other) <= max(len(one), len(other)) // _LETTERS_FOR_ERROR


def _comparable(name: str) -> str:
    return name.lower().replace("_", "-")


def _edits(one: str, other: str) -> int:
    """Return the optimal string alignment distance: swapped adjacent letters are one edit."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, against in enumerate(other, 1):
            cost = min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != against))
            swaps = i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against
            row.append(min(cost, before[j - 2] + 1) if swaps else cost)
        before, above = above, row
    return above[-1]


class ValidationError(UserError):
    """All errors of one input file, reported together."""

    def __init__(
        self, source: str, diagnostics: Sequence[Diagnostic], *, hint: str | None = None
    ) -> None:
        noun = "mistake" if len(diagnostics) == 1 else "mistakes"
        lines = "\n".join(f"  {diagnostic}" for diagnostic in diagnostics)
        super().__init__(f"{source}: {len(diagnostics)} {noun}\n{lines}", hint=hint)
        self.source = source
        self.diagnostics = tuple(diagnostics)


class TrialFailed(MillraceError):
    """The failure of a step of a trial, which is stored as the trial's result.

    ``log_tail`` is the end of the server's log. If several servers are measured together, ``side``
    is the number of the one that failed, None if unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        step: str | None = None,
        log_tail: str | None = None,
        side: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.step = step
        self.log_tail = log_tail
        self.side = side


DatabaseErrorKind = Literal["unreachable", "lost", "forbidden", "absent", "odd", "refused"]


class DatabaseError(MillraceError):
    """An error of a statement or a connection.

    ``kind`` is ``unreachable`` if no server responds (yet), ``lost`` if a connection ended,
    ``forbidden`` if the account lacks a privilege, ``absent`` if the named object does not exist,
    ``odd`` if the response cannot be parsed, and ``refused`` otherwise. ``code`` is the server's
    error code, None if it sent none.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: DatabaseErrorKind = "refused",
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.code = code


class HostError(MillraceError):
    """A transient error of this host, such as no network or no space. Exit status 4."""

    exit_status = 4


class DiskFull(HostError):
    """An error for a full disk."""


class PermanentHostError(HostError):
    """A permanent error of this host: a missing file, a wrong checksum, an unusable program."""


class NotServed(PermanentHostError):
    """An error for a source that responds, but does not offer this server (any more)."""


class Unavailable(MillraceError):
    """An error for an observation that this host does not support; ``message`` is the reason."""


class GateFailed(MillraceError):
    """A verdict that ``--fail-on`` names: exit status 10, or 11 for only an inconclusive one."""

    def __init__(self, message: str, *, exit_status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_status = exit_status


class Interrupted(MillraceError):
    """An interruption by Ctrl-C or SIGTERM. Exit status 130."""

    exit_status = 130
