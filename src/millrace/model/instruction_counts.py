"""Instructions of statements, as trials count them and the analysis reads them.

A call path is the names of functions, the outermost first; its last one executes instructions.
``stored_counts`` has the document in which a run keeps them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.levels import Level
from millrace.model.documents import Count, Document, Items, Number, Whole

CallPath = tuple[str, ...]

MOST_FAILED = 1
"""The most starts of a treatment that may fail before it is started no more."""

MARGIN = 0.002
"""The smallest difference that matters unless the user says otherwise, a fraction.

Starts of a server spread by some hundredths of a percent.
"""

UNKNOWN = "[unknown]"
"""Stands for a function without a name."""


class Repetition(Document):
    """A repetition of statements of one kind; all figures are per statement.

    Every start of a server executes the same statements in the repetition of a ``number``.
    ``instructions`` are those of the client's connection, from the arrival of a command to its
    answer, ``background`` those of all threads that serve no client.
    """

    instructions: Number
    background: Count
    number: Whole = 0


@dataclass(frozen=True)
class CountedStart:
    """One start of a server, and how it executed statements of one kind again and again.

    ``transactions`` are those of a repetition's longer session. ``paths`` are instructions per
    statement, means over the repetitions, of calls below the function that executes a command.
    ``files`` are the program or library of a function, where known.
    """

    transactions: int
    repetitions: tuple[Repetition, ...]
    paths: Mapping[CallPath, float] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)


class Program(Document):
    """The build of a server's program, as far as counts depend on it.

    ``compilers`` are the texts that compilers left in it. A ``position_independent`` one (PIE)
    takes other instructions to reach its data.
    """

    compilers: Items[str]
    position_independent: bool | None = None


@dataclass(frozen=True)
class TreatmentStarts:
    """The starts of a treatment, whose ``levels`` are by factor, without the number of clients.

    ``failed`` further ones failed, the first of them for the reason ``failure``.
    """

    levels: Mapping[str, Level]
    starts: tuple[CountedStart, ...]
    program: Program | None
    failure: str | None = None
    failed: int = 0
