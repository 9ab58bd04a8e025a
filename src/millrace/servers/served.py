"""Query the sources of the catalogue for the servers that are available today."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import HostError, NotServed
from millrace.servers import catalogue, suites
from millrace.servers.catalogue import Entry, Suite
from millrace.servers.sources import fetch

_AT_ONCE = 4


@dataclass(frozen=True)
class ServedAnswer:
    """The availability of a server: ``served`` is None where no source could be queried.

    ``reason`` says why it is unavailable, or which exact build a suite's name means.
    """

    served: bool | None
    reason: str = ""


def ask_all() -> Mapping[str, ServedAnswer]:
    """Query every server and suite of the catalogue, by name; nothing is downloaded."""
    entries, names = catalogue.entries(), catalogue.suites()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = [*pool.map(ask, entries.values()), *pool.map(ask_suite, names.values())]
    return dict(zip((*entries, *names), answers, strict=True))


def ask(entry: Entry) -> ServedAnswer:
    """Query the sources of a server in their order, until one has it."""
    refusals: list[NotServed] = []
    unclear: list[HostError] = []
    for source in entry.sources:
        try:
            with tempfile.TemporaryDirectory(prefix="millrace-ask-") as scratch:
                fetch.require_served(source, Path(scratch))
        except NotServed as error:
            refusals.append(error)
        except HostError as error:
            unclear.append(error)
        else:
            return ServedAnswer(served=True)
    reason = "; ".join(error.message for error in (*unclear, *refusals))
    return ServedAnswer(served=None if unclear else False, reason=reason)


def ask_suite(suite: Suite) -> ServedAnswer:
    """Query which exact build the name of a suite means today."""
    try:
        package = suites.newest(suite)
    except NotServed as error:
        return ServedAnswer(served=False, reason=error.message)
    except HostError as error:
        return ServedAnswer(served=None, reason=error.message)
    return ServedAnswer(served=True, reason=suites.name_of(suite.family, package))
