"""Test what a workload requires of servers: replicas, disks to fill, and compressed tables."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from millrace.app.calibrate import calibrate
from millrace.app.execution import Caller
from millrace.campaign import requirements
from millrace.campaign.inputs import PreparedTreatment
from millrace.databases.table_formats import TableFormat
from millrace.errors import PermanentHostError, Unavailable, UserError, ValidationError
from millrace.experiment.model import Plan
from millrace.experiment.plan import chosen, expand
from millrace.levels import Level
from millrace.model.roles import SERVER
from millrace.model.servers import AttachedServer, FittedOptions, Server
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec
from tests.support.experiment_files import SMALL, experiment_text, parsed
from tests.support.installed import installed
from tests.support.laboratory import attach_a_server, plan_of


@pytest.fixture(autouse=True)
def _an_attached_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attach_a_server(tmp_path, monkeypatch)


def of_pair(source: str, replica: str, gtid: str = "auto") -> str:
    """Return the experiment of a source and its replica."""
    factors = {"source.server": [source], "replica.server": [replica], "gtid": [gtid]}
    compared = ("replica.server", replica)
    return experiment_text(
        "replication", servers=(), factors=factors, compare=compared, parameters={"rows": 10}
    )


def pair(directory: Path, source: str, replica: str, gtid: str) -> Plan:
    return plan_of(directory, of_pair(source, replica, gtid))


def test_a_newer_replica_of_the_same_family_is_possible(tmp_path: Path) -> None:
    requirements.refuse_impossible(pair(tmp_path, "mysql-5.7.22", "mysql-8.0.12", "auto"))
    requirements.refuse_impossible(pair(tmp_path, "mariadb-10.1.23", "mariadb-10.11.19", "off"))


@pytest.mark.parametrize(
    ("source", "replica", "gtid", "why"),
    [
        ("mysql-8.0.12", "mysql-5.7.22", "auto", "must not be older"),
        ("mysql-5.6.24", "mysql-8.0.12", "auto", "or of the next one"),
        ("mysql-5.6.24", "mariadb-10.11.19", "auto", "between families is not known to work"),
        ("mysql-5.5.34", "mysql-5.5.34", "on", "exist from 5.6.9 on"),
        ("theirs", "mysql-8.0.12", "auto", "attached servers cannot replicate"),
    ],
)
def test_any_other_pair_is_refused_with_its_reason(
    tmp_path: Path, source: str, replica: str, gtid: str, why: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        requirements.refuse_impossible(pair(tmp_path, source, replica, gtid))
    assert f"{replica} cannot be a replica of {source}: " in str(raised.value)
    assert why in str(raised.value)
    assert raised.value.hint is not None


def filling(directory: Path, server: str = "mysql-5.7.22", more: str = "") -> Plan:
    factors = {"filled_by": ["inserts", "binary_log"]}
    compared = ("filled_by", "inserts")
    text = experiment_text("full-disk", servers=[server], factors=factors, compare=compared)
    return plan_of(directory, text.replace("[compare]", f"{more}\n[compare]"))


def test_the_disk_of_an_attached_server_cannot_be_filled(tmp_path: Path) -> None:
    requirements.refuse_impossible(filling(tmp_path))
    with pytest.raises(ValidationError, match="cannot fill the disk of theirs, an attached server"):
        requirements.refuse_impossible(filling(tmp_path, "theirs"))


def test_a_host_that_cannot_mount_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_work_dir: Path) -> None:
        raise Unavailable("no loop devices", hint="be root")

    monkeypatch.setattr(requirements, "require_limited_filesystem", refuse)
    with pytest.raises(PermanentHostError, match="no loop devices") as caught:
        requirements.refuse_without_filesystem(filling(tmp_path), tmp_path)
    assert caught.value.hint == "be root"


def test_what_compares_no_speed_is_not_calibrated(tmp_path: Path) -> None:
    store, caller = tmp_path / "results.sqlite", Caller("millrace calibrate")
    with pytest.raises(UserError, match="do not measure speed"):
        calibrate(store, filling(tmp_path).experiment, caller, verdicts=1, injected=None)
    assert not store.exists()


def required(directory: Path, more: str = "") -> dict[str, Mapping[str, Level]]:
    """Return the options that the server of each case needs."""
    planned = filling(directory, more=more)
    servers = {SERVER: installed(directory, "mysql-5.7.22")}
    found = {}
    for treatment in planned.treatments:
        workload = ResolvedWorkload(
            planned.experiment.workload, chosen(planned.experiment, treatment)
        )
        needed = requirements.required_options(servers, treatment, workload)
        found[str(treatment.levels["filled_by"])] = needed[SERVER]
    return found


def test_only_the_case_of_the_binary_log_has_one(tmp_path: Path) -> None:
    assert required(tmp_path) == {
        "inserts": {"log_bin": False},
        "binary_log": {"binlog_format": "ROW", "server_id": 1, "log_bin": "binlog"},
    }
    with pytest.raises(UserError, match=r"options\.log_bin cannot be varied"):
        required(tmp_path, more="options.log_bin = [true]")


def test_no_snapshot_is_kept_of_a_disk_that_is_filled(tmp_path: Path) -> None:
    experiment = filling(tmp_path).experiment
    workload = ResolvedWorkload(experiment.workload, {"free_mb": 32})
    assert not workload.keeps_snapshots
    assert workload.rows == 64_000
    assert workload.checked.measured.timed == ("fill",)
    assert workload.checked.measured.loading == ()


def compressed(levels: str) -> Plan:
    factor = f"[factors]\ncompression = [{levels}]\n"
    return expand(parsed(SMALL.replace("[factors]\n", factor)), seed=1)


def formats(levels: str, server: Server) -> dict[str, TableFormat]:
    planned = compressed(levels)
    return {
        str(each.levels["compression"]): requirements.table_format_of(
            planned.experiment, each, server
        )
        for each in planned.treatments
    }


def prepared(table_format: TableFormat, directory: Path) -> PreparedTreatment:
    spec = ServerSpec(installed(directory), FittedOptions("c", ()), table_format=table_format)
    return PreparedTreatment((spec,), ResolvedWorkload({}, {}))


def test_old_servers_are_alike_with_and_without_compression(tmp_path: Path) -> None:
    server = installed(tmp_path, "mysql-5.6.24")
    found = formats('"none", "row-4k"', server)
    assert (found["none"].sql, found["row-4k"].sql) == (
        "",
        "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4",
    )
    assert found["none"].server_options == found["row-4k"].server_options != {}
    assert formats('"none"', server)["none"].server_options == {}


def test_an_attached_server_gets_no_options() -> None:
    theirs = AttachedServer("theirs", "mariadb", "mysql://a@127.0.0.1:1/")
    found = formats('"page-zlib"', theirs)["page-zlib"]
    assert (found.sql, found.server_options) == ("PAGE_COMPRESSED=1", {})


def test_an_option_that_the_compression_decides_is_not_varied(tmp_path: Path) -> None:
    factor = 'options.innodb_compression_algorithm = ["lzma"]\n'
    levels = f'[factors]\n{factor}compression = ["page-zlib"]\n'
    planned = expand(parsed(SMALL.replace("[factors]\n", levels)), seed=1)
    treatment = planned.treatments[0]
    server = installed(tmp_path, "mariadb-10.11.19")
    found = requirements.table_format_of(planned.experiment, treatment, server)
    with pytest.raises(UserError, match=r"options\.innodb_compression_algorithm cannot be varied"):
        requirements.refuse_varied(treatment, "server", found)
    requirements.refuse_varied(treatment, "server", TableFormat())


def test_format_missing_on_some_servers_is_noted_and_on_all_refused(tmp_path: Path) -> None:
    lacking = formats('"page-zlib"', installed(tmp_path, "mysql-5.6.24"))["page-zlib"]
    there = formats('"page-zlib"', installed(tmp_path, "mysql-5.7.22"))["page-zlib"]
    both = [prepared(each, tmp_path) for each in (lacking, there)]
    (sentence,) = requirements.unavailable(both)
    assert sentence.startswith("MySQL 5.6.24 has no compression 'page-zlib'")
    assert requirements.unavailable(both[1:]) == []
    with pytest.raises(UserError, match=r"MySQL 5\.6\.24 has no compression"):
        requirements.unavailable(both[:1])


def test_pages_need_a_file_system_with_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [prepared(TableFormat("InnoDB", "page-zlib", "", {}, punches_holes=True), tmp_path)]
    requirements.refuse_without_holes(pages, tmp_path)

    def no_holes(_directory: Path) -> None:
        raise Unavailable("the file system cannot punch holes")

    monkeypatch.setattr(requirements, "require_holes", no_holes)
    with pytest.raises(PermanentHostError, match="cannot punch holes; compression 'page-zlib'"):
        requirements.refuse_without_holes(pages, tmp_path)
    requirements.refuse_without_holes(
        [prepared(TableFormat("InnoDB", "row", ""), tmp_path)], tmp_path
    )
