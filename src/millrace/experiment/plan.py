"""A checked experiment expanded to its trials, in randomised complete blocks.

Identity. Ids are the first 12 hex digits of the SHA-256 of canonical JSON, of nothing but what they
identify, so that an id means the same in every plan: an interrupted run finds its trials again,
more blocks keep those that are done, and a treatment is recognised in another run:

* the digest: name and scale of the experiment, the workload's definition, its parameters, and
  whether pairs are measured side by side;
* a treatment: its levels (the workload's defaults for factors that are not varied), what they stand
  for, and the definitions of the configurations it uses;
* a trial: digest, treatment, block, and its purpose where that is another than to measure.

Order. Each block holds each treatment once. In block b the treatments are sorted by the SHA-256 of
``"{seed}:{b}:{treatment id}"``, a random permutation that depends on nothing else, so that more
blocks leave the earlier ones as they were. Blocks of profiled trials come after all others, their
seed being ``"{seed}:profile"``. Where pairs are measured side by side, these are what is in order
(see millrace.experiment.concurrent_pairs).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from millrace.experiment import concurrent_pairs
from millrace.experiment.levels import CONFIGURATION, resolved_level
from millrace.experiment.model import Experiment, Plan, PlannedTrial, Treatment
from millrace.experiment.ordering import drawn
from millrace.levels import Level
from millrace.model.trials import Purpose

_FORMAT = 1

_MEASURE: Purpose = "measure"
_PROFILE: Purpose = "profile"


def expand(experiment: Experiment, *, seed: int) -> Plan:
    """The plan of an experiment. The seed decides the order, and which trial of a pair has which
    half of the CPUs, and nothing else. Raises ValidationError where pairs cannot be side by
    side."""
    treatments = tuple(
        _treatment(experiment, levels)
        for levels in product(*(factor.levels for factor in experiment.factors))
    )
    if experiment.side_by_side:
        concurrent_pairs.refuse_unfit(experiment, (chosen(experiment, each) for each in treatments))
    identity = digest(experiment)
    blocks = ((block, str(seed), _MEASURE) for block in range(experiment.blocks))
    profiled = (
        (block, f"{seed}:{_PROFILE}", _PROFILE) for block in range(experiment.profile_blocks)
    )
    ordered = [
        (block, purpose, treatment, side)
        for block, of_purpose, purpose in (*blocks, *profiled)
        for treatment, side in _block_order(experiment, treatments, purpose, of_purpose, block)
    ]
    trials = tuple(
        PlannedTrial(
            trial_id(identity, treatment, block, purpose), treatment, block, position, purpose, side
        )
        for position, (block, purpose, treatment, side) in enumerate(ordered)
    )
    return Plan(experiment, identity, seed, treatments, trials)


def digest(experiment: Experiment) -> str:
    """What is measured, apart from the treatments: the same for every seed, order and number of
    blocks. It finds the runs that may be continued; whether their levels are the same is another
    question (see millrace.campaign.resume)."""
    return _id(
        {
            "format": _FORMAT,
            "name": experiment.name,
            "scale": experiment.scale,
            "workload": experiment.workload,
            "parameters": experiment.parameters,
            **({"side_by_side": True} if experiment.side_by_side else {}),
        }
    )


def chosen(experiment: Experiment, treatment: Treatment) -> dict[str, Any]:
    """The workload's factors and parameters that the experiment decides for a treatment, and their
    values; what a test has a default of its own for is open unless it is written down."""
    offered = experiment.workload.get("factors", {})
    levels = {name: treatment.resolved[name] for name in treatment.levels if name in offered}
    return {**experiment.parameters, **levels}


def trial_id(identity: str, treatment: Treatment, block: int, purpose: Purpose) -> str:
    """The id of a trial of a plan with the digest ``identity``."""
    return _id([identity, treatment.id, block, *([] if purpose == _MEASURE else [purpose])])


def _treatment(experiment: Experiment, levels: tuple[Level, ...]) -> Treatment:
    defaults = {
        name: factor["default"] for name, factor in experiment.workload.get("factors", {}).items()
    }
    named = {factor.name: level for factor, level in zip(experiment.factors, levels, strict=True)}
    resolved = defaults | {
        factor.name: resolved_level(factor, level)
        for factor, level in zip(experiment.factors, levels, strict=True)
    }
    identity = {
        "levels": defaults | named,
        "resolved": resolved,
        "configurations": _definitions(experiment, resolved),
    }
    return Treatment(_id(identity), named, resolved)


def _definitions(
    experiment: Experiment, resolved: Mapping[str, Level]
) -> dict[str, list[Mapping[str, Any]]]:
    """By role's factor, the definitions a treatment's configuration is made of."""
    definitions = {}
    for factor, level in resolved.items():
        if factor.rpartition(".")[2] == CONFIGURATION:
            layers = []
            name: Any = level
            while name is not None:
                layers.append(experiment.configurations[name])
                name = experiment.configurations[name].get("extends")
            definitions[factor] = layers
    return definitions


def _block_order(
    experiment: Experiment,
    treatments: tuple[Treatment, ...],
    purpose: Purpose,
    seed: str,
    block: int,
) -> Sequence[tuple[Treatment, int | None]]:
    """The treatments of a block, each with its half of the CPUs, None where it has all."""
    if experiment.side_by_side and purpose == _MEASURE:
        return concurrent_pairs.block_order(treatments, experiment.compare, seed, block)
    ordered = sorted(treatments, key=lambda treatment: drawn(f"{seed}:{block}:{treatment.id}"))
    return [(treatment, None) for treatment in ordered]


def _id(identity: object) -> str:
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
