"""Check the content of an experiment file."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from millrace import workloads
from millrace.errors import nearest
from millrace.experiment import levels, settings
from millrace.experiment.diagnostics import Diagnostics, Table, shown
from millrace.experiment.levels import SERVER, Vocabulary, is_among
from millrace.experiment.model import MAX_NAME_LENGTH, Factor
from millrace.experiment.settings import CompleteSettings, Settings
from millrace.experiment.toml_files import read_text
from millrace.experiment.validation_context import Definitions, ValidationContext
from millrace.experiment.workload_file import is_file, read_workload_file
from millrace.levels import Level
from millrace.tls import InvalidTls, Tls, tls_settings
from millrace.workloads import Workload

Design = Literal["interleaved", "slices"]

MAX_SEED = 2**63 - 1
ALL, INSTRUCTIONS = "all", "instructions"
"""Special names in a list of collectors: all sampling collectors, and counting instructions."""
DEFAULT_BLOCKS = 10
DEFAULT_MARGIN_PERCENT = 2.0

_TOP_KEYS = (
    "name", "title", "workload", "published", "seed", "blocks", "max_time", "profile_blocks",
    "margin_percent", "collectors", "design", "default_scale", "factors", "compare",
    "parameters", "configurations", "scales", "tls",
)  # fmt: skip
_DESIGNS: tuple[Design, ...] = ("interleaved", "slices")
_TLS_KEYS = ("mode", "ca", "allow_unverified")
_TABLES = ("factors", "compare", "parameters", "configurations", "scales", "tls")

# An experiment's name is the start of run ids and file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME_IN_WORDS = "A-Z a-z 0-9 . _ - in quotes, the first a letter or digit"
_NEWEST_RUN = "latest"  # commands accept this word instead of a run's id

_OPTION_FILE = "its path is relative to the experiment file's directory"


@dataclass(frozen=True)
class Checked:
    """The content of a file after the checks; valid only if there are no diagnostics."""

    name: str
    title: str
    published: str | None
    collectors: tuple[str, ...]
    design: Design | None
    seed: int | None
    default_scale: str | None
    workload: Table
    definitions: Definitions
    compared: str
    root: Settings
    scales: Mapping[str, Settings]
    roles: tuple[str, ...]
    tls: Mapping[str, Tls]

    def at(self, scale: str | None) -> CompleteSettings:
        """Return the settings at a scale, with defaults filled in."""
        found = self.root if scale is None else self.root.under(self.scales[scale])
        assert found.base is not None  # a file without a base has a diagnostic
        complete = {
            "blocks": found.blocks or DEFAULT_BLOCKS,
            "margin_percent": found.margin_percent or DEFAULT_MARGIN_PERCENT,
            "factors": {each.name: each for each in levels.completed(found.factors, self.roles)},
        }
        return CompleteSettings(**{**vars(found), **complete})


def check(
    document: Table, context: ValidationContext, *, directory: Path
) -> tuple[Checked, Diagnostics]:
    """Check a parsed file at all its scales; return its content and the mistakes.

    ``directory`` is the directory of the file. Raise UserError or ValidationError if its workload
    file cannot be read or has mistakes.
    """
    errors = Diagnostics()
    document = errors.keys("", document, _TOP_KEYS, tables=_TABLES)
    workload, definition = _workload(errors, document, directory)
    own = own_configurations(errors, document, context, directory)
    vocabulary = Vocabulary(context, {*context.configurations, *own}, workload)
    compared, base = _compare(errors, document, vocabulary)
    parameters = errors.table("parameters", document.get("parameters", {}))
    if workload is not None:
        parameters = settings.without_factors(errors, "parameters", parameters, vocabulary)
        parameters = errors.keys("parameters", parameters, workload.parameters)
    read = settings.read_settings(errors, "", document, vocabulary, parameters=parameters)
    root = replace(read, base=base)
    scales = {
        name: settings.read_scale(errors, f"scales.{name}", raw, vocabulary)
        for name, raw in errors.table("scales", document.get("scales", {})).items()
    }
    has_none = not scales and not errors.has_error_at("scales")  # not even invalid ones
    for scale in (Settings(),) if has_none else scales.values():
        settings.require_complete(errors, root.under(scale), vocabulary)
        _base(errors, root, scale, compared, vocabulary)
    checked = Checked(
        name=_name(errors, document),
        title=_optional_text(errors, document, "title") or str(document.get("name", "")),
        published=_published(errors, document, context.studies),
        collectors=_collectors(errors, document, context.collectors),
        design=_design(errors, document),
        seed=errors.integer("seed", document["seed"], 0, MAX_SEED) if "seed" in document else None,
        default_scale=_default_scale(errors, document, scales),
        workload=definition,
        definitions={**context.configurations, **own},
        compared=compared,
        root=settings.with_default_parameters(root, workload),
        scales=scales,
        roles=vocabulary.roles,
        tls={
            name: _tls(errors, f"tls.{name}", name, raw, context.attached)
            for name, raw in errors.table("tls", document.get("tls", {})).items()
        },
    )
    return checked, errors


def _design(errors: Diagnostics, document: Table) -> Design | None:
    named = document.get("design")
    found = next((design for design in _DESIGNS if named == design), None)
    if "design" in document and found is None:
        designs = " or ".join(f'"{design}"' for design in _DESIGNS)
        errors.add("design", f"{shown(named)} is not a design", designs)
    return found


def _tls(errors: Diagnostics, where: str, name: str, raw: object, attached: Collection[str]) -> Tls:
    table = errors.keys(where, errors.table(where, raw), _TLS_KEYS)
    if name not in attached:
        errors.add(where, f"{name!r} is not an attached server", "the name of an attached server")
    allowed = errors.boolean(f"{where}.allow_unverified", table.get("allow_unverified", False))
    try:
        return tls_settings(table.get("mode"), table.get("ca"), allow_unverified=allowed)
    except InvalidTls as wrong:
        value = "" if wrong.value is None else f"{shown(wrong.value)} "
        errors.add(f"{where}.{wrong.key}", f"{value}{wrong.message}", wrong.expected)
        return Tls()


def _name(errors: Diagnostics, document: Table) -> str:
    name = document.get("name")
    if name is None:
        errors.add("name", "is missing", _NAME_IN_WORDS)
    elif not isinstance(name, str) or _NAME.fullmatch(name) is None:
        errors.add("name", f"{shown(name)} is not a name", _NAME_IN_WORDS)
    elif len(name) > MAX_NAME_LENGTH:
        said = f"{shown(name)} has {len(name)} characters"
        errors.add("name", said, f"at most {MAX_NAME_LENGTH}")
    elif name == _NEWEST_RUN:
        errors.add("name", f"{shown(name)} is reserved for the newest run", "another name")
    else:
        return name
    return ""


def _optional_text(errors: Diagnostics, document: Table, key: str) -> str | None:
    return errors.text(key, document[key]) if key in document else None


def _published(errors: Diagnostics, document: Table, studies: Collection[str]) -> str | None:
    name = _optional_text(errors, document, "published")
    if name is not None and name not in studies:
        errors.unknown("published", "published study", name, studies)
    return name


def _collectors(errors: Diagnostics, document: Table, known: Collection[str]) -> tuple[str, ...]:
    """Return the collectors that the file lists; by default, all sampling collectors."""
    if "collectors" not in document:
        return tuple(known)
    names = document["collectors"]
    if not isinstance(names, list):
        errors.add("collectors", f"{shown(names)} is not a list", "a list of collectors, or []")
        return ()
    for name in names:
        if name not in (*known, INSTRUCTIONS, ALL):
            errors.unknown("collectors", "collector", name, (*known, INSTRUCTIONS))
    return chosen_collectors(names, known)


def chosen_collectors(names: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the named collectors in the order of ``known``; ``all`` stands for all known ones."""
    return tuple(
        name
        for name in (*known, INSTRUCTIONS)
        if name in names or (name != INSTRUCTIONS and ALL in names)
    )


def _default_scale(
    errors: Diagnostics, document: Table, scales: Mapping[str, Settings]
) -> str | None:
    name = _optional_text(errors, document, "default_scale")
    is_unknown = name is not None and name not in scales
    if is_unknown and (scales or not errors.has_error_at("scales")):
        errors.unknown("default_scale", "scale", name, scales)
    return name


def _workload(
    errors: Diagnostics, document: Table, directory: Path
) -> tuple[Workload | None, Table]:
    """Return the workload and its definition; for an unknown name, the nearest workload."""
    if "workload" not in document:
        expected = f"a path such as ./shop.toml, or one of {', '.join(workloads.names())}"
        errors.add("workload", "is missing", expected)
        return None, {}
    name = errors.text("workload", document["workload"])
    if name is None:
        return None, {}
    if is_file(name):
        return read_workload_file(directory / name)
    if name not in workloads.names():
        meant = workloads.of_test(name)
        if meant is not None:
            expected = f'workload = "{meant}", and test = ["{name}"] in [factors]'
            errors.add("workload", f"{name!r} is a test of the workload {meant}", expected)
        else:
            meant = nearest(name, workloads.names())
            ours = ", ".join(workloads.names())
            expected = f"one of {ours}; a file of your own is a path, such as ./{name}.toml"
            errors.add("workload", f"unknown workload {name!r}", expected, meant)
        if meant is None:
            return None, {}
        name = meant
    definition = workloads.load(name)
    return workloads.parse_workload(definition), definition


def own_configurations(
    errors: Diagnostics, document: Table, context: ValidationContext, directory: Path
) -> Definitions:
    """Return the configurations of a file; an option file becomes a separate, lower layer.

    Paths of option files are relative to ``directory``. Raise UserError or ValidationError if an
    option file cannot be read.
    """
    raw = errors.table("configurations", document.get("configurations", {}))
    own = {name: errors.table(f"configurations.{name}", each) for name, each in raw.items()}
    shipped = "millrace already has a configuration with this name"
    for name in own:
        if name in context.configurations:
            errors.add(f"configurations.{name}", shipped, f'another name, with extends = "{name}"')
    for diagnostic in context.check_configurations(own, context.configurations):
        errors.include(diagnostic)
    layered: dict[str, Table] = {}
    for name, definition in own.items():
        file = definition.get("file")
        if not isinstance(file, str):
            layered[name] = definition
            continue
        path = directory / file
        text = read_text(path, "option file", example=_OPTION_FILE)
        below = f"{name} ({file})"
        own_keys = {key: value for key, value in definition.items() if key != "file"}
        lowest = {key: value for key, value in own_keys.items() if key == "extends"}
        layered[below] = {**context.definition_of_option_file(text, str(path)), **lowest}
        layered[name] = {**own_keys, "extends": below}
    return layered


def _compare(
    errors: Diagnostics, document: Table, vocabulary: Vocabulary
) -> tuple[str, Level | None]:
    """Return the compared factor and the base; for an unknown factor the nearest, or ""."""
    if "compare" not in document:
        errors.add("compare", "is missing", "a table [compare] with factor and base")
        return SERVER, None
    table = errors.table("compare", document["compare"])
    raw = errors.keys("compare", table, ("factor", "base"))
    factor, known = raw.get("factor", SERVER), vocabulary.factor_names()
    is_known = isinstance(factor, str) and vocabulary.has_factor(factor)
    if not is_known and vocabulary.workload is not None:
        errors.unknown("compare.factor", "factor", factor, known)
        factor = nearest(factor, known) or ""
    base = raw.get("base")
    if base is not None and not isinstance(base, str | int | float):
        errors.add("compare.base", f"{shown(base)} is not a level", "one level")
        base = None
    return str(factor), base


def _base(
    errors: Diagnostics, root: Settings, scale: Settings, compared: str, vocabulary: Vocabulary
) -> None:
    merged = root.under(scale)
    factors = {factor.name: factor for factor in levels.completed(merged.factors, vocabulary.roles)}
    if merged.base is None:
        if not errors.has_error_at("compare.base"):
            errors.add("compare.base", "is missing", f"one of the levels of {compared or SERVER}")
    elif compared in factors:
        _base_among(errors, merged.base, root, scale, (factors[compared],))
    elif not compared:
        _base_among(errors, merged.base, root, scale, tuple(factors.values()))
    elif vocabulary.has_factor(compared) and not errors.has_error_at(
        "compare.factor", f"factors.{compared}", f"{scale.where}.factors.{compared}"
    ):
        errors.add("compare.factor", f"{compared} is not varied", f"{compared} in [factors]")


def _base_among(
    errors: Diagnostics, base: Level, root: Settings, scale: Settings, compared: tuple[Factor, ...]
) -> None:
    """Report a base that is not a level of any of the ``compared`` factors."""
    known = [level for factor in compared for level in factor.levels]
    if is_among(base, known) or errors.proposes(base):
        return
    in_file = (root.factors.get(factor.name, factor) for factor in compared)
    of_file = [level for factor in in_file for level in factor.levels]
    # Report a wrong base of the file once, not again at every scale with levels of its own.
    of_scale = scale.where and (scale.base is not None or is_among(base, of_file))
    place = f"{scale.where}.base" if of_scale else "compare.base"
    noun = f"level of {compared[0].name}" if len(compared) == 1 else "level"
    errors.unknown(place, noun, base, [str(level) for level in (known if of_scale else of_file)])
