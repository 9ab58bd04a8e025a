"""Test server options as factors, on servers that have them and on one that does not."""

from pathlib import Path

import pytest

from millrace.campaign import preparation
from millrace.campaign.inputs import PreparedTreatment
from millrace.errors import UserError
from millrace.experiment.plan import expand
from tests.conftest import InstanceOf, ServerOf
from tests.support.experiment_files import read_text

pytestmark = pytest.mark.integration

OLD, NEW, MARIADB = "mysql-5.6.24", "mysql-8.0.12", "mariadb-10.11.19"


def prepared(directory: Path, server_of: ServerOf, option: str) -> list[PreparedTreatment]:
    """Return the treatments of an experiment that varies one option on three servers."""
    names = [OLD, NEW, MARIADB]
    text = (
        'name = "varied"\nworkload = "load-data"\n'
        f'[factors]\nserver = {names}\nconfiguration = ["logging"]\noptions.{option}\n'
        f'[compare]\nbase = "{OLD}"\n[parameters]\nrows = 10\n'
        "[configurations.logging.options]\nserver_id = 1\n"
    )
    plan = expand(read_text(directory, text), seed=1)
    servers = {name: server_of(name) for name in names}
    return list(preparation.treatment_inputs(plan, servers).values())


def test_an_option_of_some_is_left_out_of_the_others(tmp_path: Path, server_of: ServerOf) -> None:
    found = prepared(tmp_path, server_of, "innodb_page_cleaners = [1, 2]")
    same = "the levels of options.innodb_page_cleaners do not differ there"
    assert preparation.options_without_effect(found) == [
        f"{lacking} has no option innodb_page_cleaners: {same}" for lacking in (OLD, MARIADB)
    ]
    applied = {
        (each.server.name, option.value)
        for treatment in found
        for each in treatment.servers
        for option in each.options.applied
        if option.name == "innodb_page_cleaners"
    }
    assert applied == {(NEW, "1"), (NEW, "2")}


def test_an_option_of_nobody_is_refused_with_the_nearest(
    tmp_path: Path, server_of: ServerOf
) -> None:
    with pytest.raises(UserError, match="experiment has the option 'innodb_page_sizes'") as found:
        prepared(tmp_path, server_of, "innodb_page_sizes = [4096]")
    assert "innodb_page_size" in (found.value.hint or "")


def test_switches_are_on_and_off_whatever_the_default(
    tmp_path: Path, server_of: ServerOf, instance_of: InstanceOf
) -> None:
    switches = ("log_bin", "innodb_adaptive_hash_index")
    # Both at once, on and off, so that a server starts for two of them.
    varied = [prepared(tmp_path, server_of, f"{name} = [true, false]") for name in switches]
    for treatments in zip(*varied, strict=True):
        servers = [server for each in treatments for server in each.servers]
        [server] = {each.server.name for each in servers}
        asked = {o.name: o.value for each in servers for o in each.options.applied}
        with instance_of(server, **asked) as instance:
            effective = instance.settings()
            for switch in switches:
                wanted = "ON" if switch in asked else "OFF"
                assert effective[switch] == wanted, (server, asked)
