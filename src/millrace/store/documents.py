"""Define models of the JSON documents in records, checked on reading from a store or a file.

Reports and analyses read these documents by key. A model has the keys that they read, with their
types; other keys may have any value. An invalid document raises pydantic's ValidationError, a
ValueError.
"""

from __future__ import annotations

from millrace.model.documents import Document


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
