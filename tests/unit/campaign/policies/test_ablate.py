"""Test the ablation experiment: its treatments and their configurations."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest

from millrace.analysis.explain.ablation import ALL
from millrace.analysis.explain.causes.model import Kind, LikelyCause
from millrace.campaign.policies.ablate import Alignment, Alignments, ablation_plan, alignments
from millrace.campaign.run_records import new_run_record
from millrace.errors import UserError
from millrace.experiment.groups import measured_together
from millrace.experiment.plan import expand
from millrace.levels import Level
from millrace.model.host_facts import HostFacts
from millrace.store.records import HostRecord, StoredRun, TreatmentRecord
from tests.support.experiment_files import SMALL, experiment_text, parsed

BINARY_LOG = Alignment("binary log", {"log_bin": "OFF", "sync_binlog": "0"})
CHECKSUMS = Alignment("checksums", {"innodb_checksum_algorithm": "none"})
WANTED = Alignments((BINARY_LOG, CHECKSUMS), ("page cache: A does not have it",))


def suspect(
    about: str, kind: Kind = "option", **settings: tuple[str | None, str | None]
) -> LikelyCause:
    return LikelyCause(
        kind=kind,
        about=about,
        sentence=f"{about} differs",
        evidence=(),
        us=5.0,
        share=0.5,
        settings=dict(settings),
    )


def stored(text: str = SMALL) -> StoredRun:
    plan = expand(parsed(text), seed=1)
    made = new_run_record(plan, HostRecord("host", HostFacts()), {}, "millrace run")
    run = replace(made, id="small-1")
    treatments = tuple(
        TreatmentRecord(each.id, position, each.levels, each.resolved)
        for position, each in enumerate(plan.treatments)
    )
    return StoredRun(run, treatments, (), ())


def treatment(run: StoredRun, levels: Mapping[str, Level]) -> TreatmentRecord:
    """Return the first treatment of a run that has these levels."""
    return next(each for each in run.treatments if levels.items() <= each.levels.items())


def takes_all(_name: str, _value: str | None) -> None:
    return None


def test_settings_of_the_likeliest_options_are_aligned_alone_and_together() -> None:
    found = alignments(
        (
            suspect("other processes", "environment"),
            suspect("binary log", log_bin=("OFF", "ON"), sync_binlog=("0", "1")),
            suspect("page cache", innodb_flush_method=(None, "O_DIRECT")),
            suspect("checksums", innodb_checksum_algorithm=("none", "crc32")),
        ),
        takes_all,
        (),
    )
    together = Alignment(ALL, {**CHECKSUMS.settings, **BINARY_LOG.settings})
    assert found.alignments == (BINARY_LOG, CHECKSUMS, together)
    assert found.left_out == (
        "other processes: part of the host or the experiment, so no setting can change it",
        "innodb_flush_method: A does not have it",
    )


def test_what_the_other_server_does_not_take_is_left_out() -> None:
    asked = []

    def refuses(name: str, value: str | None) -> Literal["option", "value"] | None:
        asked.append((name, value))
        if name == "engine":
            return "value"
        return "option" if name == "threads" else None

    found = alignments(
        (
            suspect(
                "memory", engine=("InnoDB", "TempTable"), threads=("4", None), size=("ON", "OFF")
            ),
            suspect("binary log", log_bin=("OFF", "ON")),
        ),
        refuses,
        (),
    )
    assert asked == [("engine", "InnoDB"), ("threads", "4"), ("size", "1"), ("skip_log_bin", None)]
    assert found.left_out == (
        "engine: B's server refuses the value InnoDB",
        "threads: B's server does not have this option",
    )
    assert found.alignments[0].settings == {"size": "ON"}


def test_one_setting_is_all_of_them() -> None:
    only = (suspect("binary log", log_bin=("OFF", "ON"), sync_binlog=("0", "1")),)
    assert alignments(only, takes_all, ()) == Alignments((BINARY_LOG,), ())


def test_what_cannot_be_aligned_is_named() -> None:
    found = alignments(
        (
            suspect("memory allocator", "build", allocator=("jemalloc", "glibc")),
            suspect("TLS", tls=("false", "true"), version_ssl_library=("1", "3")),
            suspect("flush method", innodb_flush_method=("", "O_DIRECT")),
            *(suspect(f"topic {n}", "option", **{f"option_{n}": ("0", "1")}) for n in range(3)),
        ),
        takes_all,
        (),
    )
    assert [each.name for each in found.alignments] == ["TLS", "topic 0", "topic 1", ALL]
    assert found.alignments[0].settings == {"tls": "false"}
    assert found.left_out == (
        "memory allocator: part of the build, so no setting can change it",
        "version_ssl_library: part of the build, so no setting can change it",
        "innodb_flush_method: empty in A",
        "topic 2: 3 likelier causes are tested",
    )


def test_error_lists_causes_when_none_can_be_aligned() -> None:
    with pytest.raises(UserError, match="memory allocator: part of the build"):
        alignments(
            (suspect("memory allocator", "build", allocator=("jemalloc", "glibc")),), takes_all, ()
        )


@pytest.mark.parametrize("suspects", [(), (suspect("parsing", "cpu"),)])
def test_without_a_suspected_setting_there_is_nothing_to_align(
    suspects: tuple[LikelyCause, ...],
) -> None:
    with pytest.raises(UserError, match="none of the suspected causes is a setting"):
        alignments(suspects, takes_all, ())


def test_b_is_measured_with_the_settings_of_a() -> None:
    run = stored()
    base, candidate = run.treatments
    made = ablation_plan(run, base=base, candidate=candidate, wanted=WANTED, blocks=4, seed=9)
    plan = made.plan
    treatments = {each.id: each for each in plan.treatments}
    assert (made.spec.base, made.spec.candidate) == (base.id, candidate.id)
    assert set(treatments) == {base.id, candidate.id, *made.spec.treatments.values()}
    assert made.spec.run == "small-1"
    assert made.spec.left_out == WANTED.left_out
    assert len(plan.trials) == 4 * 4
    assert [trial.position for trial in plan.trials] == list(range(16))
    for block in range(4):
        assert {t.treatment.id for t in plan.trials if t.block == block} == set(treatments)
    aligned = treatments[made.spec.treatments["binary log"]]
    assert aligned.levels["server"] == candidate.levels["server"]
    definition = plan.experiment.configurations[str(aligned.levels["configuration"])].to_json()
    assert definition["extends"] == "default"
    assert definition["optional"] == {"skip_log_bin": True, "sync_binlog": "0"}


@pytest.mark.parametrize(
    ("given", "needed"), [((), {"server_id": "1"}), (("server_id", "port"), {})]
)
def test_an_aligned_binary_log_has_the_server_id_that_it_needs(
    given: tuple[str, ...], needed: dict[str, str]
) -> None:
    suspects = (
        suspect("binary log", log_bin=("ON", "OFF")),
        suspect("checksums", innodb_checksum_algorithm=("none", "crc32")),
    )
    found = alignments(suspects, takes_all, given)
    assert [each.needed for each in found.alignments] == [needed, {}, needed]
    run = stored()
    base, candidate = run.treatments
    made = ablation_plan(run, base=base, candidate=candidate, wanted=found, blocks=2, seed=9)
    of = {each.id: str(each.levels["configuration"]) for each in made.plan.treatments}
    options = {
        name: made.plan.experiment.configurations[of[each]].to_json()["optional"]
        for name, each in made.spec.treatments.items()
    }
    assert options["binary log"] == {"log_bin": True, **needed}
    assert options["checksums"] == {"innodb_checksum_algorithm": "none"}
    assert options[ALL] == {**options["checksums"], **options["binary log"]}


def test_a_setting_that_is_a_factor_has_what_it_needs_by_a_configuration() -> None:
    text = SMALL.replace("[compare]", "options.log_bin = [false, true]\n[compare]")
    run = stored(text)
    base = treatment(run, {"server": "mysql-5.6.24", "options.log_bin": True})
    candidate = treatment(run, {"server": "mysql-5.7.22", "options.log_bin": False})
    wanted = alignments((suspect("binary log", log_bin=("ON", "OFF")),), takes_all, ())
    made = ablation_plan(run, base=base, candidate=candidate, wanted=wanted, blocks=2, seed=1)
    (aligned,) = (t for t in made.plan.treatments if t.id in made.spec.treatments.values())
    assert aligned.levels["options.log_bin"] is True
    configuration = made.plan.experiment.configurations[
        str(aligned.levels["configuration"])
    ].to_json()
    assert configuration["optional"] == {"server_id": "1"}


def test_a_setting_that_is_a_factor_is_aligned_by_its_level() -> None:
    text = SMALL.replace(
        "[compare]", 'options.sync_binlog = [0, 1]\nengine = ["InnoDB", "MyISAM"]\n[compare]'
    )
    run = stored(text)
    base = treatment(run, {"server": "mysql-5.6.24", "options.sync_binlog": 0, "engine": "InnoDB"})
    others: dict[str, Level] = {
        "server": "mysql-5.7.22",
        "options.sync_binlog": 1,
        "engine": "InnoDB",
    }
    candidate = treatment(run, others)
    wanted = Alignments((Alignment("sync", {"sync_binlog": "0"}),), ())
    made = ablation_plan(run, base=base, candidate=candidate, wanted=wanted, blocks=3, seed=1)
    (aligned,) = (t for t in made.plan.treatments if t.id == made.spec.treatments["sync"])
    assert aligned.levels == {**candidate.levels, "options.sync_binlog": 0}
    assert len(made.plan.treatments) == 3


def test_what_is_all_that_differs_needs_no_test() -> None:
    text = SMALL.replace('server = ["mysql-5.6.24", "mysql-5.7.22"]', 'server = ["mysql-5.6.24"]')
    text = text.replace("[compare]", "options.sync_binlog = [0, 1]\n[compare]")
    text = text.replace('base = "mysql-5.6.24"', 'factor = "options.sync_binlog"\nbase = 0')
    run = stored(text)
    base, candidate = run.treatments
    wanted = Alignments((Alignment("sync", {"sync_binlog": "0"}),), ())
    with pytest.raises(UserError, match="A and B differ only in sync_binlog"):
        ablation_plan(run, base=base, candidate=candidate, wanted=wanted, blocks=3, seed=1)


READS = experiment_text(
    "sysbench",
    blocks=3,
    factors={"test": ["point-query"], "protocol": ["prepared", "text"]},
    parameters={"table_size": 1000, "cache_mode": "cached"},
)


def test_where_the_run_was_in_slices_all_treatments_are_a_round() -> None:
    run = stored(READS)
    base, candidate = (
        treatment(run, {"server": server, "protocol": "prepared"})
        for server in ("mysql-5.6.24", "mysql-5.7.22")
    )
    made = ablation_plan(run, base=base, candidate=candidate, wanted=WANTED, blocks=4, seed=9)
    assert made.plan.experiment.treatments_at_once == 4
    for block in range(4):
        trials = [each for each in made.plan.trials if each.block == block]
        assert [each.slot for each in trials] == [0, 1, 2, 3]
    (together, *_) = measured_together(made.plan.trials, made.plan.experiment.compared_factors)
    assert len(together) == 4
    slots = {(each.treatment.id, each.slot) for each in made.plan.trials}
    assert len(slots) == 16  # each has each slot once
    assert {each.id for each in made.plan.treatments} >= {base.id, candidate.id}


def test_a_setting_of_the_clients_is_aligned_in_interleaved_trials() -> None:
    run = stored(READS)
    base = treatment(run, {"server": "mysql-5.6.24", "protocol": "text"})
    candidate = treatment(run, {"server": "mysql-5.7.22", "protocol": "prepared"})
    wanted = Alignments((Alignment("protocol", {"protocol": "text"}),), ())
    made = ablation_plan(run, base=base, candidate=candidate, wanted=wanted, blocks=2, seed=9)
    assert {each.slot for each in made.plan.trials} == {None}
    assert made.plan.experiment.treatments_at_once == 1
