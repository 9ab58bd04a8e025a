"""Describe the environment of a point of a history: where it changes, points do not compare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from millrace.levels import Level
from millrace.model.documents import short_digest
from millrace.model.instance_facts import InstanceFacts
from millrace.model.roles import MEASURED
from millrace.store.history_records import StateRecord
from millrace.store.records import RunRecord, ServerRecord


class Instance(Protocol):
    """A server of a trial, in its role."""

    @property
    def role(self) -> str:
        """The role of the server."""

    @property
    def server(self) -> ServerRecord:
        """The server and its build."""

    @property
    def facts(self) -> InstanceFacts:
        """The facts that millrace observed of the server."""


@dataclass(frozen=True)
class Side:
    """A base or a candidate: its levels, with aliases replaced, and its servers."""

    resolved: Mapping[str, Level]
    instances: Sequence[Instance]

    @property
    def build(self) -> str | None:
        """The SHA-256 of the program that figures are about, where it is known."""
        servers = (each.server for each in self.instances if each.role in MEASURED)
        return next((server.build.program_sha256 for server in servers), None)


def environment(run: RunRecord, factor: str, base: Side, candidate: Side) -> StateRecord:
    """Return the environment: host, tools, data, the sides' builds, files and settings."""
    facts = run.host.environment()
    facts |= {name.replace("_", " "): run.versions.get(name) for name in ("load_generator", "data")}
    if "valgrind" in run.versions:
        facts["valgrind"] = run.versions["valgrind"]
    facts |= {f"reference {role}": build for role, build in _builds(base).items()}
    facts |= _page_cache(run, (base, candidate))
    facts |= _configurations(run, base)
    if not _is_configuration(factor):
        facts |= _configurations(run, candidate)
    return StateRecord(short_digest([run.host.id, facts]), run.host.id, facts)


def _builds(side: Side) -> dict[str, str]:
    """Return each role's build: its program's digest, or an external server's own version."""
    return {
        instance.role: str(instance.server.build.program_sha256 or instance.server.version_reported)
        for instance in side.instances
    }


def _page_cache(run: RunRecord, sides: Iterable[Side]) -> dict[str, str]:
    """Return the place of restored files where millrace chose memory.

    Where the experiment says it, the series has it.
    """
    chosen = {
        instance.facts.page_cache
        for side in sides
        if run.spec.chosen(side.resolved).get("page_cache") == "auto"
        for instance in side.instances
    }
    return {"page cache": "warm"} if "warm" in chosen else {}


def _configurations(run: RunRecord, side: Side) -> dict[str, str]:
    return {
        f"configuration {level}": short_digest(
            [each.to_json() for each in run.spec.layers(str(level))]
        )
        for factor, level in side.resolved.items()
        if _is_configuration(factor)
    }


def _is_configuration(factor: str) -> bool:
    return factor.rpartition(".")[2] == "configuration"
