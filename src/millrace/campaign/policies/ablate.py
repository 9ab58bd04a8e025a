"""Plan the ablation: measure B again with the suspected settings at their values in A.

It shows whether these settings made a difference, whichever of the two servers is the better one.

    A, B                 as they were measured
    B with X as in A     for each suspected setting
    B with all as in A   where there are several

All treatments share the same blocks, so that each gain is measured against the loss in the same
block. Options and factors (TLS, transport, protocol, numbers of clients) can be aligned. A server's
build, including its memory allocator, and other activity of the host cannot; they are listed as
left out.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from millrace.analysis.explain.ablation import ALL
from millrace.analysis.explain.causes.known import needed
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.campaign.run_records import experiment_of_run
from millrace.errors import UserError
from millrace.experiment.levels import CONFIGURATION, OPTION
from millrace.experiment.model import Compare, Factor, Plan, short_name
from millrace.experiment.plan import expand, without_slices
from millrace.levels import Level
from millrace.model import run_spec
from millrace.model.run_spec import Ablates, ConfigurationDefinition
from millrace.store.records import StoredRun, TreatmentRecord
from millrace.store.store import Store

_MOST = 3

_ELSEWHERE: Mapping[str, str] = {
    "build": "of the build, which no setting changes",
    "environment": "of the host or the experiment, which no setting changes",
}
_OF_BUILDS = ("version_",)

# Bare switches, which take no value.
_SWITCHES = ("log_bin",)


Refuses = Callable[[str, str | None], Literal["option", "value"] | None]
"""Return "option" where B's server does not know an option, "value" where it refuses the value.

The value is None for a bare flag.
"""


@dataclass(frozen=True)
class Alignment:
    """Settings of B, by name, with their values in A.

    ``needed`` are options that B does not start without then and that its configuration lacks.
    """

    name: str
    settings: Mapping[str, str]
    needed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Alignments:
    """The alignments, the one of all settings last, and the suspects left out, a clause each."""

    alignments: tuple[Alignment, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class AblationPlan:
    """An ablation: its ``spec``, and the plan that runs the treatments of it."""

    plan: Plan
    spec: Ablates


def alignments(
    likely_causes: Sequence[LikelyCause], refuses: Refuses, given: Collection[str]
) -> Alignments:
    """Return the alignments of the likeliest causes, each alone and all together.

    ``given`` names the options in B's configuration. Raises UserError where none can be aligned.
    """
    found: list[Alignment] = []
    left_out: list[str] = []
    for cause in likely_causes:
        if cause.kind in _ELSEWHERE:
            left_out.append(f"{cause.about}: {_ELSEWHERE[cause.kind]}")
        if cause.kind != "option":
            continue
        reasons = {name: _why_not(name, a, refuses) for name, (a, _) in cause.settings.items()}
        left_out += [f"{name}: {reason}" for name, reason in reasons.items() if reason]
        settings = {name: a for name, (a, _) in cause.settings.items() if a and not reasons[name]}
        if settings and len(found) == _MOST:
            left_out.append(f"{cause.about}: {_MOST} likelier causes are tested")
        elif settings:
            found.append(_alignment(cause.about, settings, given))
    if not found:
        why = f" ({'; '.join(left_out)})" if left_out else ""
        raise UserError(
            f"no suspect is a setting that could be the same for both{why}",
            hint="`millrace explain` without --ablate shows what was found",
        )
    if len(found) > 1:
        together = {k: value for each in reversed(found) for k, value in each.settings.items()}
        found.append(_alignment(ALL, together, given))
    return Alignments(tuple(found), tuple(left_out))


def _alignment(name: str, settings: Mapping[str, str], given: Collection[str]) -> Alignment:
    wanted = needed(settings)
    return Alignment(name, settings, {k: wanted[k] for k in wanted if k not in given})


def _why_not(name: str, a: str | None, refuses: Refuses) -> str:
    """Return the reason that B cannot take a setting's value ``a`` of A; empty where it can."""
    if name.startswith(_OF_BUILDS):
        return _ELSEWHERE["build"]
    if a is None:
        return "not there in A"
    if not a:
        return "empty in A"
    reasons = {
        refuses(option, None if value is True else str(value))
        for option, value in _option(name, a).items()
    }
    if "option" in reasons:
        return "the server of B has no such option"
    return f"the server of B does not take {a}" if "value" in reasons else ""


def refuse_imported(store: Store, run_id: str) -> None:
    """Raise UserError for a run whose statements and settings another wrote: it could mean harm."""
    if store.imported([run_id]):
        raise UserError(
            f"run {run_id} was imported: millrace executes no statements and settings of others",
            hint="get its experiment file, read it, and measure it here with `millrace run FILE`",
        )


def ablation_plan(
    stored: StoredRun,
    *,
    base: TreatmentRecord,
    candidate: TreatmentRecord,
    wanted: Alignments,
    blocks: int,
    seed: int,
) -> AblationPlan:
    """Return the plan; raise UserError where an alignment makes B equal to A."""
    run, spec = stored.run, stored.run.spec
    configurations = dict(spec.configurations)
    levels: dict[str, dict[str, Level]] = {}
    for alignment in wanted.alignments:
        levels[alignment.name] = _aligned(candidate, base, alignment, configurations)
        if alignment.name != ALL and levels[alignment.name] == base.levels:
            raise UserError(
                f"{', '.join(alignment.settings)} is all that the two differ in",
                hint="their comparison is the test already: see `millrace report`",
            )
    every = [dict(base.levels), dict(candidate.levels), *levels.values()]
    experiment = experiment_of_run(
        run,
        name=short_name(run.name, "-suspects"),
        title=f"{run.title}: suspects",
        configurations=configurations,
        factors=tuple(_factor(each, every) for each in spec.factors),
        compare=Compare(spec.compare.factor, base.levels[spec.compare.factor]),
        blocks=blocks,
        margin=run.margin,
        campaign=run_spec.CampaignPart(),
        slices=run.design.slices,
        combinations=tuple(every),
    )
    plan = expand(experiment, seed=seed)
    if all(trial.slot is None for trial in plan.trials):
        plan = expand(without_slices(experiment), seed=seed)
    ids = {_key(treatment.levels): treatment.id for treatment in plan.treatments}
    ablates = Ablates(
        run=run.id,
        base=ids[_key(base.levels)],
        candidate=ids[_key(candidate.levels)],
        aligned=tuple(
            run_spec.Aligned(name=name, treatment=ids[_key(of)]) for name, of in levels.items()
        ),
        left_out=wanted.left_out,
    )
    return AblationPlan(plan, ablates)


def _aligned(
    candidate: TreatmentRecord,
    base: TreatmentRecord,
    alignment: Alignment,
    configurations: dict[str, ConfigurationDefinition],
) -> dict[str, Level]:
    """Return the candidate's levels with the settings of the base.

    Those that are not factors become options of a new one of ``configurations``.
    """
    levels = dict(candidate.levels)
    options: dict[str, str | int | bool] = {}
    for name, value in alignment.settings.items():
        factor = name if name in levels else f"{OPTION}{name}"
        if factor in levels:
            levels[factor] = base.levels[factor]
        else:
            options |= _option(name, value)
    if options or levels != base.levels:
        options |= alignment.needed
    if options:
        below = str(candidate.resolved[CONFIGURATION])
        named = f"{below} with {alignment.name} as in the base"
        definition = {"title": named, "extends": below, "optional": options}
        configurations[named] = ConfigurationDefinition.model_validate(definition)
        levels[CONFIGURATION] = named
    return levels


def _option(name: str, value: str) -> dict[str, str | int | bool]:
    """Return an option that sets a variable; all versions accept ON and OFF as numbers."""
    switched = {"ON": True, "OFF": False}.get(value)
    if switched is None:
        return {name: value}
    if name in _SWITCHES:
        return {name if switched else f"skip_{name}": True}
    return {name: int(switched)}


def _factor(factor: run_spec.FactorSpec, every: Sequence[Mapping[str, Level]]) -> Factor:
    name = factor.name
    levels = tuple(dict.fromkeys(of[name] for of in every))
    aliases = {level: of for level, of in factor.aliases.items() if level in levels}
    return Factor(name, levels, aliases)


def _key(levels: Mapping[str, Level]) -> frozenset[tuple[str, Level]]:
    return frozenset(levels.items())
