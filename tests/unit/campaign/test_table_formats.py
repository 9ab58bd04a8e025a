"""Test which tables a treatment gets, and what is refused or said before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.campaign import table_formats
from millrace.campaign.inputs import PreparedTreatment
from millrace.campaign.table_formats import (
    refuse_varied,
    refuse_without_holes,
    table_format_of,
    unavailable,
)
from millrace.databases.table_formats import TableFormat
from millrace.errors import PermanentHostError, Unavailable, UserError
from millrace.experiment.model import Plan
from millrace.experiment.plan import expand
from millrace.model.servers import AttachedServer, FittedOptions, Server
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec
from tests.support.installed import installed
from tests.unit.experiment.files import SMALL, read_text


def plan(directory: Path, levels: str) -> Plan:
    factor = f"[factors]\ncompression = [{levels}]\n"
    return expand(read_text(directory, SMALL.replace("[factors]\n", factor)), seed=1)


def formats(directory: Path, levels: str, server: Server) -> dict[str, TableFormat]:
    planned = plan(directory, levels)
    return {
        str(each.levels["compression"]): table_format_of(planned.experiment, each, server)
        for each in planned.treatments
    }


def prepared(table_format: TableFormat, directory: Path) -> PreparedTreatment:
    spec = ServerSpec(installed(directory), FittedOptions("c", ()), table_format=table_format)
    return PreparedTreatment((spec,), ResolvedWorkload({}, {}))


def test_old_servers_are_alike_with_and_without_compression(tmp_path: Path) -> None:
    server = installed(tmp_path, "mysql-5.6.24")
    found = formats(tmp_path, '"none", "row-4k"', server)
    assert (found["none"].sql, found["row-4k"].sql) == (
        "",
        "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4",
    )
    assert found["none"].server_options == found["row-4k"].server_options != {}
    assert formats(tmp_path, '"none"', server)["none"].server_options == {}


def test_an_attached_server_gets_no_options(tmp_path: Path) -> None:
    theirs = AttachedServer("theirs", "mariadb", "mysql://a@127.0.0.1:1/")
    found = formats(tmp_path, '"page-zlib"', theirs)["page-zlib"]
    assert (found.sql, found.server_options) == ("PAGE_COMPRESSED=1", {})


def test_an_option_that_the_compression_decides_is_not_varied(tmp_path: Path) -> None:
    factor = 'options.innodb_compression_algorithm = ["lzma"]\n'
    levels = f'[factors]\n{factor}compression = ["page-zlib"]\n'
    planned = expand(read_text(tmp_path, SMALL.replace("[factors]\n", levels)), seed=1)
    treatment = planned.treatments[0]
    server = installed(tmp_path, "mariadb-10.11.19")
    found = table_format_of(planned.experiment, treatment, server)
    with pytest.raises(UserError, match=r"options\.innodb_compression_algorithm cannot be varied"):
        refuse_varied(treatment, "server", found)
    refuse_varied(treatment, "server", TableFormat())


def test_format_missing_on_some_servers_is_noted_and_on_all_refused(tmp_path: Path) -> None:
    lacking = formats(tmp_path, '"page-zlib"', installed(tmp_path, "mysql-5.6.24"))["page-zlib"]
    there = formats(tmp_path, '"page-zlib"', installed(tmp_path, "mysql-5.7.22"))["page-zlib"]
    both = [prepared(each, tmp_path) for each in (lacking, there)]
    (sentence,) = unavailable(both)
    assert sentence.startswith("MySQL 5.6.24 has no compression 'page-zlib'")
    assert unavailable(both[1:]) == []
    with pytest.raises(UserError, match=r"MySQL 5\.6\.24 has no compression"):
        unavailable(both[:1])


def test_pages_need_a_file_system_with_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [prepared(TableFormat("InnoDB", "page-zlib", "", {}, punches_holes=True), tmp_path)]
    refuse_without_holes(pages, tmp_path)

    def no_holes(_directory: Path) -> None:
        raise Unavailable("the file system cannot punch holes")

    monkeypatch.setattr(table_formats, "require_holes", no_holes)
    with pytest.raises(PermanentHostError, match="cannot punch holes; compression 'page-zlib'"):
        refuse_without_holes(pages, tmp_path)
    refuse_without_holes([prepared(TableFormat("InnoDB", "row", ""), tmp_path)], tmp_path)
