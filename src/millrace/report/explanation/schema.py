"""The JSON document of explanations, version ``millrace.explanation/1``.

Its records are those of the analysis: what their documentation says holds for the document. Within
version 1 keys are only added. ``docs/explain.md`` describes the document, and
``report/schema/explanation-1.schema.json`` is generated from here (a test compares them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field

from millrace.analysis.explain.ablation import GivenBack
from millrace.analysis.explain.blocking_stacks import BlockedComparison
from millrace.analysis.explain.call_paths import PathDifference
from millrace.analysis.explain.causes.model import Suspect
from millrace.analysis.explain.efficiency import EfficiencyRow
from millrace.analysis.explain.explanation import Disturbance, Lack
from millrace.analysis.explain.observations import Noun
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.explain.profiles import By, FlatProfile, FunctionDifference, GroupDifference
from millrace.analysis.explain.statement_breakdown import StatementAccount, StatementDifferences
from millrace.analysis.explain.statements import StatementComparison
from millrace.analysis.explain.time_breakdown import Account, AccountDifferences
from millrace.analysis.explain.variables import VariablesDiff
from millrace.analysis.explain.waits import Coverage, DigestComparison, WaitComparison
from millrace.levels import Level
from millrace.report.common.json_parts import HostPart, Part, RunPart
from millrace.stats import MeanEstimate

Version = Literal["millrace.explanation/1"]
VERSION: Version = "millrace.explanation/1"


class SidePart(Part):
    """One of the two treatments: its levels, how many of its trials were measured and profiled, the
    account, what its own instruments cover, and its flat profile. Null: too little was observed.
    `statement_accounts` is empty too where an operation has one statement alone."""

    label: str
    levels: dict[str, Level]
    trials: int
    profiled_trials: int
    account: Account | None
    statement_accounts: list[StatementAccount]
    coverage: Coverage | None
    flat_profile: FlatProfile | None


class ProfilePart(Part):
    """What the profiled trials differ in, in µs of CPU time per operation; `by` says what the
    intervals are of. `call_paths` are those that differ most; other formats have all of them."""

    blocks: list[int]
    by: By
    a_cpu_us: float
    b_cpu_us: float
    cpu: MeanEstimate
    groups: list[GroupDifference]
    functions: list[FunctionDifference]
    call_paths: list[PathDifference]


class ExperimentPart(Part):
    """What aligned settings gave back of a loss, as fractions of the base's value of `metric`, in
    the trials of the run `run`; `answer` says so in words. `remaining` is with all of them aligned,
    and null where that has no result. `untried` are alignments without one that counts, and
    `left_out` what is suspected and was not aligned, each with its reason. `not_steady` says why
    none of it counts, and is null where it does."""

    run: str
    metric: str
    answer: list[str]
    loss: MeanEstimate
    given_back: list[GivenBack]
    remaining: MeanEstimate | None
    untried: list[str]
    left_out: list[str]
    not_steady: str | None


class ExplanationPart(Part):
    """The base (A) against a candidate (B) of one group; all differences are B - A.

    `factor` is what they differ in, `held` are the levels of all others. `noun` is what one
    operation is. `answer` says the difference in words, `doubts` what speaks against it. `unequal`
    says in which way the two did not do the same work, and is null where they did. `experiment` is
    what `--test-suspects` measured last, and null where it did not. `why_no_suspects` is null where
    there are suspects, and where too little was observed to have any.
    """

    title: str
    answer: list[str]
    doubts: list[str]
    factor: str
    held: dict[str, Level]
    noun: Noun
    a: SidePart
    b: SidePart
    unequal: str | None
    suspects: list[Suspect]
    why_no_suspects: str | None
    experiment: ExperimentPart | None
    account: AccountDifferences | None
    statement_differences: list[StatementDifferences]
    blocked: list[BlockedComparison]
    efficiency: list[EfficiencyRow]
    statements: list[StatementComparison]
    waits: list[WaitComparison]
    stages: list[WaitComparison]
    digests: list[DigestComparison]
    plans: list[PlanComparison]
    profile: ProfilePart | None
    variables: VariablesDiff | None
    disturbances: list[Disturbance]
    missing: list[Lack]


class ExplanationDocument(Part):
    """What millrace says about why treatments of one run differ."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=VERSION)

    document_schema: Version = Field(alias="schema")
    run: RunPart
    host: HostPart
    explanations: list[ExplanationPart]


def schema() -> Mapping[str, Any]:
    """The JSON Schema (draft 2020-12) of the document."""
    generated = ExplanationDocument.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}
