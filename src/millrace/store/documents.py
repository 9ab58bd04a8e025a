"""Models of the JSON documents inside records, checked where a record comes from a store or a file.

Reports and analyses read these documents by key. A model holds the keys that they read, with their
types; other keys may have any value. What a model refuses raises pydantic's ValidationError, a
ValueError.
"""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from millrace.model.documents import Count, Document, Number

# Facts of an instance and of the host, which the runner recorded.


class _CpuWakeup(Document):
    reason: str
    kept_awake_by: dict[str, Any] | None = None
    shared_cpu: int | None = None
    polled: bool | None = None
    on_cpus: list[int] | None = None


class _Together(Document):
    measured_from_s: Number
    measured_to_s: Number

    @model_validator(mode="after")
    def _lasts(self) -> _Together:
        if self.measured_to_s <= self.measured_from_s:
            raise ValueError("ends before it begins")
        return self


class _Statistics(Document):
    age_s: Number
    rows: Count


class _ServerState(Document):
    begin: dict[str, Any] | None = None
    end: dict[str, Any] | None = None
    statistics: dict[str, _Statistics] | None = None


class _HostTime(Document):
    measured_s: Number
    suspended_s: Number
    clock_step_s: Number
    steal_share: Number | None


class InstanceFacts(Document):
    """Facts of a server's instance in a trial."""

    limits: list[str] | None = None
    load_method: str | None = None
    load_method_reason: str | None = None
    residency: str | None = None
    residency_why: str | None = None
    template_not_kept: str | None = None
    unsettled: list[str] | None = None
    cpu_wakeup: _CpuWakeup | None = None
    side_by_side: _Together | None = None
    state: _ServerState | None = None
    host_time: _HostTime | None = None


class _Artefact(Document):
    coordinate: str
    sha256: str | None = None


class Build(Document):
    """The provenance of a server's build."""

    program_sha256: str | None = None
    build_id: str | None = None
    artefacts: list[_Artefact] | None = None


class _Finding(Document):
    check: str
    status: str
    observed: str
    why: str
    remedy: str | None = None


class HostFacts(Document):
    """Facts of a host, with the findings of ``millrace doctor``."""

    findings: list[_Finding] | None = None
