"""The JSON document of explanations, version ``millrace.explanation/2``.

Its records are those of the analysis: what their documentation says holds for the document. Within
version 2 keys are only added. ``docs/explain.md`` describes the document, and
``report/schema/explanation-2.schema.json`` is generated from here (a test compares them).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain import profiles
from millrace.analysis.explain.ablation import Recovery
from millrace.analysis.explain.blocking_stacks import BlockedComparison
from millrace.analysis.explain.call_tree import PathDifference
from millrace.analysis.explain.causes.model import Kind
from millrace.analysis.explain.efficiency import EfficiencyRow
from millrace.analysis.explain.explanation import Disturbance, Explanation, MissingObservation
from millrace.analysis.explain.observations import Noun
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.explain.statement_breakdown import (
    StatementBreakdown,
    StatementBreakdownDifference,
)
from millrace.analysis.explain.statements import StatementComparison
from millrace.analysis.explain.time_breakdown import BreakdownDifference, TimeBreakdown
from millrace.analysis.explain.waits import Coverage, DigestComparison, WaitComparison
from millrace.analysis.variables import VariablesDiff
from millrace.levels import Level
from millrace.report.common.json_parts import (
    From,
    HostPart,
    JsonPart,
    RunPart,
    TextOrNull,
    document_text,
    part,
)
from millrace.report.counts import ComparedTreatmentsPart
from millrace.report.explanation.ablation import ablation_sentences
from millrace.report.explanation.causes import confirmed_by
from millrace.report.explanation.caveats import caveat_sentences
from millrace.report.explanation.sentences import answer, title
from millrace.stats.mean import MeanEstimate
from millrace.store.records import RunRecord

Version = Literal["millrace.explanation/2"]
VERSION: Version = "millrace.explanation/2"


class SidePart(JsonPart):
    """One of the two treatments. Null: too little was observed.

    `statement_breakdowns` is empty too where an operation has one statement alone.
    """

    label: str
    levels: dict[str, Level]
    trials: Annotated[int, From(lambda side: len(side.trials))]
    profiled_trials: Annotated[int, From(lambda side: len(side.profiled))]
    breakdown: TimeBreakdown | None
    statement_breakdowns: list[StatementBreakdown]
    coverage: Coverage | None
    flat_profile: Annotated[profiles.FlatProfile | None, From("flat")]


_LIKELY = (Certainty.SHOWN, Certainty.LIKELY)


class LikelyCausePart(JsonPart):
    """Something that may have made the difference, and what would confirm it.

    `us` is how much of the difference its evidence covers, `share` that as a fraction of it. Both
    are null for a fact (`is_fact`), which differs whatever the times do; it `is_against` how the
    two look where it costs the faster side. Without `is_likely` it only could act on a part that
    moved; where it not `may_be_most`, it can have made less than half of the difference.
    `settings` are suspected, with their values in A and B, and `names` what A and B call those that
    one of them calls otherwise, or does not have (null).
    """

    kind: Kind
    about: str
    sentence: str
    evidence: list[str]
    us: float | None
    share: float | None
    settings: dict[str, tuple[str | None, str | None]]
    names: dict[str, tuple[str | None, str | None]]
    shown: Annotated[bool, From(lambda cause: cause.certainty == Certainty.SHOWN)]
    is_likely: Annotated[bool, From(lambda cause: cause.certainty in _LIKELY)]
    is_fact: Annotated[bool, From(lambda cause: cause.us is None)]
    may_be_most: bool
    is_against: Annotated[bool, From(lambda cause: cause.certainty == Certainty.FACT_AGAINST)]
    confirmed_by: str


def _likely_causes(e: Explanation) -> list[LikelyCausePart]:
    return [
        part(LikelyCausePart, cause, confirmed_by=confirmed_by(cause, e))
        for cause in e.likely_causes
    ]


class ProfilePart(JsonPart):
    """The differences of the profiled trials, in µs of CPU time per operation.

    `by` says what the intervals are of. `leading` are the functions that make most of the
    difference in `cpu`; `call_paths` are those that differ most.
    """

    blocks: list[int]
    by: profiles.By
    a_cpu_us: float
    b_cpu_us: float
    cpu: MeanEstimate
    groups: list[profiles.GroupDifference]
    leading: list[profiles.LeadingFunction]
    functions: list[profiles.FunctionDifference]
    call_paths: Annotated[list[PathDifference], From("paths")]


class AblationPart(JsonPart):
    """The share of a loss that aligned settings recovered, as fractions of the base's `metric`.

    `run` measured it, and `answer` says it in words. `remaining` is with all of them aligned, and
    null where that has no result. `untried` are alignments without one that counts, and `left_out`
    what is suspected and was not aligned, each with its reason. `unsteady` says why none of it
    counts, and is null where it does.
    """

    run: Annotated[str, From("run_id")]
    metric: Annotated[str, From("metric.name")]
    answer: list[str]
    loss: MeanEstimate
    recovered: list[Recovery]
    remaining: MeanEstimate | None
    untried: list[str]
    left_out: list[str]
    unsteady: TextOrNull


def _ablation(e: Explanation) -> AblationPart | None:
    found = e.ablation
    return None if found is None else part(AblationPart, found, answer=ablation_sentences(e))


class ExplanationPart(JsonPart):
    """The base (A) against a candidate (B) of one group; all differences are B - A.

    `factor` is what they differ in, `fixed_factors` are the levels of all others. `noun` is what
    one operation is. `answer` says the difference in words, `caveats` what speaks against it.
    `unequal` says in which way the two did not do the same work, and is null where they did.
    `ablation` is the newest result of `--ablate`, and null where there is none. `instructions` are
    null where neither was counted.
    `why_no_likely_causes` says why the times show none, and is null where they do, and where too
    little was observed.
    """

    title: Annotated[str, From(title)]
    answer: Annotated[list[str], From(answer)]
    caveats: Annotated[list[str], From(caveat_sentences)]
    factor: str
    fixed_factors: dict[str, Level]
    noun: Noun
    a: SidePart
    b: SidePart
    unequal: TextOrNull
    likely_causes: Annotated[list[LikelyCausePart], From(_likely_causes)]
    why_no_likely_causes: TextOrNull
    ablation: Annotated[AblationPart | None, From(_ablation)]
    breakdown: Annotated[BreakdownDifference | None, From("differences")]
    statement_breakdown_differences: list[StatementBreakdownDifference]
    blocked: list[BlockedComparison]
    efficiency: list[EfficiencyRow]
    statements: list[StatementComparison]
    waits: list[WaitComparison]
    stages: list[WaitComparison]
    digests: list[DigestComparison]
    plans: list[PlanComparison]
    profile: ProfilePart | None
    instructions: ComparedTreatmentsPart | None
    variables: VariablesDiff | None
    disturbances: list[Disturbance]
    missing: list[MissingObservation]


class ExplanationDocument(JsonPart):
    """Explanations of why treatments of one run differ."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=VERSION)

    document_schema: Version = Field(alias="schema")
    run: RunPart
    host: HostPart
    explanations: list[ExplanationPart]


def as_json(explanations: Sequence[Explanation], run: RunRecord) -> str:
    """Return the versioned document as indented JSON text, with a newline at its end."""
    found = {"schema": VERSION, "run": run, "host": run.host, "explanations": explanations}
    return document_text(part(ExplanationDocument, None, **found))
