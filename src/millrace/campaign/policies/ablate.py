"""Plan an ablation: measure B again with its suspected settings changed to A's values.

The ablation shows how much of the difference these settings explain. Its treatments are:

    A, B                 as measured before
    B with X as in A     for each suspected setting X
    B with all as in A   if several settings are suspected

All treatments are measured in the same blocks, so that each gain is compared with the loss in the
same block. Options and factors (TLS, transport, protocol, number of clients) can be aligned. The
server's build, including its memory allocator, and other activity on the host cannot; such causes
are reported as left out.
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
    "build": "part of the build, so no setting can change it",
    "environment": "part of the host or the experiment, so no setting can change it",
}
_OF_BUILDS = ("version_",)

# Bare switches, which take no value.
_SWITCHES = ("log_bin",)


Refuses = Callable[[str, str | None], Literal["option", "value"] | None]
"""Return "option" if B's server does not know an option, "value" if it refuses the value.

Return None if it accepts both. The value is None for a flag without a value.
"""


@dataclass(frozen=True)
class Alignment:
    """Settings of B, by name, with their values in A.

    ``needed`` are further options, missing in B's configuration, without which B would not start
    with these settings.
    """

    name: str
    settings: Mapping[str, str]
    needed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Alignments:
    """The alignments, with that of all settings last, and a reason for each suspect left out."""

    alignments: tuple[Alignment, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class AblationPlan:
    """An ablation: the plan of its treatments, and the ``spec`` that is stored with the run."""

    plan: Plan
    spec: Ablates


def alignments(
    likely_causes: Sequence[LikelyCause], refuses: Refuses, given: Collection[str]
) -> Alignments:
    """Return the alignments of the likeliest causes, each alone and all together.

    ``given`` names the options in B's configuration. Raise UserError if nothing can be aligned.
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
            f"none of the suspected causes is a setting that B could share with A{why}",
            hint="`millrace explain` without --ablate shows the suspected causes",
        )
    if len(found) > 1:
        together = {k: value for each in reversed(found) for k, value in each.settings.items()}
        found.append(_alignment(ALL, together, given))
    return Alignments(tuple(found), tuple(left_out))


def _alignment(name: str, settings: Mapping[str, str], given: Collection[str]) -> Alignment:
    wanted = needed(settings)
    return Alignment(name, settings, {k: wanted[k] for k in wanted if k not in given})


def _why_not(name: str, a: str | None, refuses: Refuses) -> str:
    """Return why B cannot use A's value ``a`` of a setting; an empty string if it can."""
    if name.startswith(_OF_BUILDS):
        return _ELSEWHERE["build"]
    if a is None:
        return "A does not have it"
    if not a:
        return "empty in A"
    reasons = {
        refuses(option, None if value is True else str(value))
        for option, value in _option(name, a).items()
    }
    if "option" in reasons:
        return "B's server does not have this option"
    return f"B's server refuses the value {a}" if "value" in reasons else ""


def refuse_imported(store: Store, run_id: str) -> None:
    """Raise UserError for an imported run, whose statements and settings could be malicious."""
    if store.imported([run_id]):
        raise UserError(
            f"run {run_id} was imported: millrace does not execute statements of others",
            hint="get its experiment file, review it, and measure it here with `millrace run FILE`",
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
    """Return the plan of the ablation; raise UserError if one setting alone makes B equal to A."""
    run, spec = stored.run, stored.run.spec
    configurations = dict(spec.configurations)
    levels: dict[str, dict[str, Level]] = {}
    for alignment in wanted.alignments:
        levels[alignment.name] = _aligned(candidate, base, alignment, configurations)
        if alignment.name != ALL and levels[alignment.name] == base.levels:
            raise UserError(
                f"A and B differ only in {', '.join(alignment.settings)}",
                hint="their comparison already tests this setting: see `millrace report`",
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

    Settings that are not factors become options of a new configuration, which is added to
    ``configurations``.
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
    """Return the option that sets a variable; ON and OFF become 1 and 0 for old versions."""
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
