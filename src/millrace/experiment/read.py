"""Read and check an experiment file: TOML in, ``Experiment`` out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from millrace.errors import Diagnostic, UserError, ValidationError, did_you_mean
from millrace.experiment import levels, model
from millrace.experiment.diagnostics import Diagnostics, Table
from millrace.experiment.levels import SERVER, is_among, resolved_level
from millrace.experiment.model import Compare, Experiment, Factor
from millrace.experiment.plan import is_in_open_loop, with_slices
from millrace.experiment.settings import CompleteSettings, Settings
from millrace.experiment.toml_files import parse_toml, read_text, with_lines
from millrace.experiment.validation import INSTRUCTIONS, Checked, Design, check, own_configurations
from millrace.experiment.validation_context import Definitions, ValidationContext
from millrace.levels import CLIENTS, Level, level_named, levels_text
from millrace.model.run_spec import BLOCKS_IN_TIME, ConfigurationDefinition
from millrace.workloads import defaults

AS_WRITTEN = "as written"
_CACHE_MODE = "cache_mode"
_REFERENCE = "docs/experiment-file.md describes every key"
_EXAMPLE = "copy experiments/load-data.toml and edit it"


@dataclass(frozen=True)
class Overrides:
    """Command-line values that replace those of an experiment file; None keeps the file's value.

    ``blocks`` is an exact number of blocks, ``max_blocks`` and ``max_time_s`` are limits. With a
    ``candidate``, the compared factor has only this level and the base.
    """

    blocks: int | None = None
    max_blocks: int | None = None
    max_time_s: float | None = None
    profile_blocks: int | None = None
    collectors: tuple[str, ...] | None = None
    margin_percent: float | None = None
    seed: int | None = None
    base: Level | None = None
    candidate: str | None = None
    interleaved: bool | None = None
    slices: bool | None = None


NO_OVERRIDES = Overrides()


def read(
    path: Path,
    *,
    scale: str | None,
    context: ValidationContext,
    overrides: Overrides = NO_OVERRIDES,
) -> Experiment:
    """Read the experiment at ``path`` at one scale.

    Without ``scale``, the scale is the file's ``default_scale``, else ``laptop`` if the file has
    it, else its only scale. A file without scales is used as written. A workload's path is relative
    to the file's directory. Raise ValidationError with every mistake of the file, at all scales.
    Raise UserError if the file cannot be read or does not have the scale.
    """
    text = read_text(path, "experiment file", example=_EXAMPLE)
    return parse(text, path, scale=scale, context=context, overrides=overrides)


def read_configurations(path: Path, context: ValidationContext) -> Definitions:
    """Return the configurations that an experiment file defines; its other parts are not checked.

    Raise UserError if the file cannot be read, ValidationError for mistakes in configurations.
    """
    text = read_text(path, "experiment file", example=_EXAMPLE)
    document = parse_toml(path, text, reference=_REFERENCE)
    errors = Diagnostics()
    found = own_configurations(errors, document, context, path.parent)
    _refuse_mistakes(errors, path, text)
    return found


def parse(
    text: str,
    path: Path,
    *,
    scale: str | None,
    context: ValidationContext,
    overrides: Overrides = NO_OVERRIDES,
) -> Experiment:
    """Read an experiment from a text, as ``read`` does; ``path`` is its name in errors."""
    document = parse_toml(path, text, reference=_REFERENCE)
    checked, errors = check(document, context, directory=path.parent)
    _refuse_mistakes(errors, path, text)
    chosen = _scale(path, checked, scale)
    settings = _overridden(checked.at(chosen), overrides)
    compared = settings.factors[checked.compared]
    if overrides.candidate is not None:
        compared = _one_candidate(compared, _level(compared, settings.base), overrides.candidate)
    factors = tuple({**settings.factors, compared.name: compared}.values())
    is_sequential = (
        overrides.blocks is None
        and (settings.blocks > model.MOST_FIXED_BLOCKS or settings.max_time_s is not None)
        and len(compared.levels) > 1
    )
    design = _design(checked, overrides)
    collectors = checked.collectors if overrides.collectors is None else overrides.collectors
    requires_slices = design == "slices"
    sampling = tuple(name for name in collectors if name != INSTRUCTIONS)
    has_attached = _has_attached(factors, context)
    experiment = Experiment(
        name=checked.name,
        title=checked.title,
        scale=chosen or AS_WRITTEN,
        workload=_workload_of(checked, settings, factors, slices=requires_slices),
        configurations=_used(factors, checked.definitions),
        factors=factors,
        compare=Compare(checked.compared, _level(compared, settings.base)),
        parameters=settings.parameters,
        blocks=_most_blocks(settings, overrides) if is_sequential else settings.blocks,
        margin=settings.margin_percent / 100,
        collectors=sampling,
        profile_blocks=settings.profile_blocks or 0,
        seed=checked.seed if overrides.seed is None else overrides.seed,
        published=checked.published,
        source=str(path),
        text=text,
        sequential=is_sequential,
        max_time_s=settings.max_time_s if is_sequential else None,
        tls=checked.tls,
        slices=requires_slices,
        requires_slices=requires_slices,
        counted_starts=model.COUNTED_STARTS if INSTRUCTIONS in collectors else 0,
        profiles_by_default=settings.profile_blocks is None
        and bool(sampling)
        and len(compared.levels) > 1
        and not has_attached,
    )
    _refuse_endless_plan(experiment)
    _refuse_counts(experiment)
    _refuse_unfit_levels(experiment, has_attached=has_attached)
    if context.check_workload is not None:
        context.check_workload(experiment)
    if is_in_open_loop(experiment):
        experiment = replace(experiment, workload=defaults.in_open_loop(experiment.workload))
    if design is not None or has_attached:
        return experiment
    sliced = with_slices(experiment)
    return sliced if sliced.slices else replace(sliced, slices_if_cached=_lacks_cached(experiment))


def _lacks_cached(experiment: Experiment) -> bool:
    """Return whether ``cache_mode = "cached"`` would make slices valid."""
    parameters = {**experiment.checked_workload.defaults(), **experiment.parameters}
    if parameters.get(_CACHE_MODE) != "any":
        return False
    cached = {**experiment.parameters, _CACHE_MODE: "cached"}
    return with_slices(replace(experiment, parameters=cached)).slices


def _workload_of(
    checked: Checked, settings: Settings, factors: Iterable[Factor], *, slices: bool
) -> Table:
    """Return the workload's definition, with the metrics and phases that the settings require."""
    workload = checked.workload
    if compresses(factors):
        workload = defaults.with_sizes(workload)
    if int(settings.parameters.get(defaults.LOOPS, 1)) > 1:
        workload = defaults.with_loops(workload)
    if settings.parameters.get(defaults.DROP_AFTER) == "on":
        workload = defaults.with_drop(workload)
    return defaults.in_slices(workload) if slices else workload


def _refuse_unfit_levels(experiment: Experiment, *, has_attached: bool) -> None:
    """Raise ValidationError for levels that cannot be compared or set on these servers."""
    offered = experiment.checked_workload.factors
    compared = experiment.compare.factor
    found = []
    if compared in offered and not offered[compared].comparable:
        message = f"levels of {compared} do different work, so they cannot be compared"
        hint = f"another factor to compare; {compared} may stay in [factors]"
        found.append(Diagnostic("compare.factor", message, hint))
    why = None
    if has_attached:
        why = "millrace does not start attached servers"
    elif experiment.parameters.get("snapshot") == "off":
        why = "without snapshots, a server keeps running after it has loaded its tables"
    for factor in experiment.factors if why is not None else ():
        known = offered[factor.name].after_start if factor.name in offered else []
        for level in factor.levels:
            if level in known:
                message = f"{level} needs servers that start after their tables are loaded; {why}"
                hint = f"other levels of {factor.name}"
                found.append(Diagnostic(f"factors.{factor.name}", message, hint))
    if found:
        raise ValidationError(experiment.source, with_lines(found, experiment.text))


def _refuse_endless_plan(experiment: Experiment) -> None:
    """Raise ValidationError for too many treatments or trials, before the plan is expanded."""
    treatments = math.prod(len(factor.levels) for factor in experiment.factors)
    blocks = experiment.blocks + experiment.profile_blocks + experiment.counted_starts
    trials = treatments * blocks
    if treatments > model.MOST_TREATMENTS:
        sizes = " x ".join(f"{len(each.levels)} of {each.name}" for each in experiment.factors)
        message = f"the levels give {treatments:,} treatments: {sizes}"
        _refuse(experiment, Diagnostic("factors", message, f"at most {model.MOST_TREATMENTS:,}"))
    elif trials > model.MOST_TRIALS:
        message = f"{treatments:,} treatments in {blocks:,} blocks are {trials:,} trials"
        fewer = f"at most {model.MOST_TRIALS:,}: fewer levels or blocks"
        _refuse(experiment, Diagnostic("blocks", message, fewer))


def _refuse_counts(experiment: Experiment) -> None:
    """Raise ValidationError if counting instructions would compare nothing."""
    if not experiment.counted_starts:
        return
    why = None
    if not experiment.checked_workload.drives:
        why = "only clients' statements are counted, and this workload has no clients"
    elif experiment.compare.factor == CLIENTS:
        why = "instructions are counted with a single client, whatever the number of clients is"
    if why is not None:
        message = f"instructions cannot be compared: {why}"
        without = f"a list without {INSTRUCTIONS!r}"
        _refuse(experiment, Diagnostic("collectors", message, without))


def _refuse(experiment: Experiment, mistake: Diagnostic) -> NoReturn:
    placed = with_lines([mistake], experiment.text)
    raise ValidationError(experiment.source, placed, hint=_REFERENCE)


def _refuse_mistakes(errors: Diagnostics, path: Path, text: str) -> None:
    """Raise ValidationError if there are mistakes, sorted by line; those without one come last."""
    if errors.diagnostics:
        placed = with_lines(errors.diagnostics, text)
        placed.sort(key=lambda diagnostic: (diagnostic.line is None, diagnostic.line or 0))
        raise ValidationError(str(path), placed, hint=_REFERENCE)


def _scale(path: Path, checked: Checked, wanted: str | None) -> str | None:
    scales = checked.scales
    if wanted is not None:
        if wanted not in scales:
            has = f"it has: {', '.join(scales)}" if scales else "it has no scales"
            raise UserError(f"{path} has no scale {wanted!r}; {has}{did_you_mean(wanted, scales)}")
        return wanted
    if not scales:
        return None
    if checked.default_scale is not None:
        return checked.default_scale
    if "laptop" in scales:
        return "laptop"
    if len(scales) == 1:
        return next(iter(scales))
    raise UserError(
        f"{path} has several scales and no default_scale",
        hint=f"choose one with --scale: {', '.join(scales)}",
    )


def _overridden(settings: CompleteSettings, overrides: Overrides) -> CompleteSettings:
    given: dict[str, Any] = {
        "blocks": overrides.blocks or overrides.max_blocks,
        "max_time_s": overrides.max_time_s,
        "profile_blocks": overrides.profile_blocks,
        "margin_percent": overrides.margin_percent,
        "base": overrides.base,
    }
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def _most_blocks(settings: CompleteSettings, overrides: Overrides) -> int:
    """Return the maximum number of blocks of a sequential run, which stops at clear verdicts."""
    if overrides.max_time_s is None or overrides.max_blocks is not None:
        return settings.blocks
    return max(settings.blocks, BLOCKS_IN_TIME)


def _design(checked: Checked, overrides: Overrides) -> Design | None:
    """Return the design from the command line, else from the file; None if millrace chooses it."""
    if overrides.slices and overrides.interleaved:
        hint = "use only one of the two options"
        raise UserError("--slices and --interleaved exclude each other", hint=hint)
    if overrides.slices:
        return "slices"
    return "interleaved" if overrides.interleaved else checked.design


def _has_attached(factors: Iterable[Factor], context: ValidationContext) -> bool:
    """Return whether any server of the experiment is attached."""
    used = {
        resolved_level(factor, level)
        for factor in factors
        for level in factor.levels
        if factor.name.rpartition(".")[2] == SERVER
    }
    return not used.isdisjoint(context.attached)


def compresses(factors: Iterable[Factor]) -> bool:
    """Return whether any level of the factor ``compression`` compresses tables."""
    return any(
        resolved_level(factor, level) != defaults.UNCOMPRESSED
        for factor in factors
        if factor.name == defaults.COMPRESSION
        for level in factor.levels
    )


def _level(factor: Factor, base: Level) -> Level:
    for level in factor.levels:
        if is_among(base, (level,)):
            return level
    hint = f"use one of: {', '.join(map(str, factor.levels))}"
    raise UserError(f"the base {base!r} is not a level of {factor.name}", hint=hint)


def _one_candidate(factor: Factor, base: Level, wanted: str) -> Factor:
    others = [level for level in factor.levels if level != base]
    found = level_named(wanted, others)
    if found is None:
        raise UserError(
            f"{wanted!r} is not a level of {factor.name} to compare with the base {base}",
            hint=f"use one of: {levels_text(others)}" if others else "add levels to the file",
        )
    return replace(factor, levels=tuple(each for each in factor.levels if each in (base, found)))


def _used(
    factors: tuple[Factor, ...], definitions: Definitions
) -> dict[str, ConfigurationDefinition]:
    used: dict[str, ConfigurationDefinition] = {}
    for factor in factors:
        if factor.name.rpartition(".")[2] == levels.CONFIGURATION:
            for level in factor.levels:
                name: str | None = str(resolved_level(factor, level))
                while name is not None and name not in used:
                    used[name] = ConfigurationDefinition.model_validate(definitions[name])
                    name = used[name].extends
    return used
