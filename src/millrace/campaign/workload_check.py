"""Check an experiment's workload with the load generator, before anything starts.

The load generator compiles the tables, generators, statements and tests of every treatment, as it
does in a trial, and returns every mistake.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydantic

from millrace import databases
from millrace.errors import Diagnostic, UserError
from millrace.experiment.model import Experiment
from millrace.experiment.plan import chosen, expand
from millrace.experiment.workload_file import REFERENCE, refuse, source_of
from millrace.loadgen import program
from millrace.loadgen.spec import Connection
from millrace.model.phases import APPLY, COMPARE_TABLES, FILL_DISK
from millrace.trial import phase_spec
from millrace.trial.resolved_workload import ResolvedWorkload

_MILLRACES_OWN = (APPLY, COMPARE_TABLES, FILL_DISK)  # kinds of phases
_CONNECTION = Connection(user="", password="", socket=Path("/"))


def refuse_mistakes(experiment: Experiment) -> None:
    """Raise ValidationError with every mistake, HostError if the load generator cannot run."""
    workload = experiment.checked_workload
    if not workload.tables:
        return
    once = replace(experiment, blocks=1, profile_blocks=0, counted_starts=0)
    treatments = expand(replace(once, requires_slices=False), seed=0).treatments
    runs: dict[str, dict[str, Any]] = {}
    failure: Exception | None = None
    for values in (chosen(experiment, treatment) for treatment in treatments):
        resolved = ResolvedWorkload(experiment.workload, values)
        try:
            run: dict[str, Any] = {"values": values, "phases": _phases(resolved)}
        except (ValueError, KeyError, pydantic.ValidationError) as error:
            # The load generator reports the mistake, with its key.
            failure, run = error, {"values": values}
        runs.setdefault(json.dumps(run), run)
    request = {
        "workload": resolved.parts,
        "defaults": {**workload.defaults(), "table_options": ""},
        # Parameters without a default need values, because unmeasured tests are checked too.
        "values": {k: v for k, v in resolved.chosen.items() if k not in workload.defaults()},
        "seed": int(resolved.table_values.get("data_seed", 1)),
        "runs": list(runs.values()),
    }
    answer = program.ask(["check", "-"], json.dumps(request))
    named = str(tomllib.loads(experiment.text)["workload"])
    source, text = source_of(named, Path(experiment.source).parent)
    found = [
        Diagnostic(_place(each["key"], experiment.workload), each["message"])
        for each in answer["mistakes"]
    ]
    refuse(list(dict.fromkeys(found)), source, text)
    if failure is not None:
        raise UserError(f"{source}: {failure}", hint=REFERENCE)


def _phases(workload: ResolvedWorkload) -> list[dict[str, Any]]:
    """Return a workload's phases in the load generator's format; any dialect is good enough."""
    dialect = databases.get(databases.names()[0]).load_dialect
    phases = [phase for phase in workload.checked.phases if phase.kind not in _MILLRACES_OWN]
    spec = phase_spec.load_spec(phases, workload, dialect, _CONNECTION)
    found: list[dict[str, Any]] = json.loads(spec.to_json())["phases"]
    return found


def _place(key: str, definition: Mapping[str, Any]) -> str:
    """Return the place in the workload file of a key that the load generator reported."""
    if matched := re.match(r"phases\[(\d+)\]", key):
        phases = enumerate(definition["phases"])
        own = [at for at, each in phases if each["kind"] not in _MILLRACES_OWN]
        return f"phases[{own[int(matched[1])]}]{key[matched.end() :]}"
    return "".join(_steps(key, definition)).removeprefix(".")


def _steps(key: str, part: object) -> Iterator[str]:
    """Yield the steps from ``part`` to the value at a key; a name may contain dots."""
    while key:
        key = key.removeprefix(".")
        if isinstance(part, list) and (matched := re.match(r"\[(\d+)\]", key)):
            step, key = matched[0], key[matched.end() :]
            at = int(matched[1])
            part = part[at] if at < len(part) else None
            yield step
            continue
        named = _members(part)
        name = max((each for each in named if _begins_with(key, each)), key=len, default=None)
        if name is None:
            yield key if key.startswith("[") else f".{key}"
            return
        key, (step, part) = key[len(name) :], named[name]
        yield step


def _members(part: object) -> dict[str, tuple[str, object]]:
    """Return the step to, and the value of, each member by name, of a table or a list of tables."""
    match part:
        case Mapping():
            return {str(name): (f".{name}", each) for name, each in part.items()}
        case list():
            return {
                str(each["name"]): (f"[{at}]", each)
                for at, each in reversed(list(enumerate(part)))
                if isinstance(each, Mapping) and "name" in each
            }
    return {}


def _begins_with(key: str, name: str) -> bool:
    return key.startswith(name) and key[len(name) :][:1] in ("", ".", "[")
