import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.errors import UserError
from millrace.model import servers
from millrace.servers import options

HELP = """\
mysqld  Ver 5.6.24 for Linux on x86_64
--defaults-file=#       Only read default options from the given file #.

  --allow-suspicious-udfs
                      Allows use of UDFs. See also --old-option in the manual.
  -a, --ansi          Use ANSI SQL syntax instead of MySQL syntax.
  --innodb-buffer-pool-size=#
                      The size of the memory buffer InnoDB uses
  --log-bin[=name]    Log update queries in binary format.
  -u, --user=name     Run mysqld daemon as user.

Variables (--variable-name=value)
and boolean options {FALSE|TRUE}          Value (after reading options)
----------------------------------------- ---------------
allow-suspicious-udfs                     FALSE
innodb-buffer-pool-size                   134217728
init-connect
log-bin                                   (No default value)
sql-mode                                  NO_ENGINE_SUBSTITUTION
hidden-but-listed                         a value with blanks

To see what values a running MySQL server is using, type
'mysqladmin variables' instead of 'mysqld --verbose --help'.
"""

RULES = databases.get("mysql").options
KNOWN = servers.KnownOptions(
    frozenset({"innodb_log_file_size", "log_bin", "skip_name_resolve", "innodb_redo_log_capacity"})
)


def configuration(*wanted: servers.Option) -> servers.Configuration:
    return servers.Configuration("mine", wanted)


def option(name: str, *, optional: bool = False, value: str | None = "1") -> servers.Option:
    return servers.Option(name, value, optional, layer="layer")


def fit(*wanted: servers.Option) -> servers.FittedOptions:
    return options.fit_known("mysql-x", RULES, KNOWN, configuration(*wanted))


def test_help_is_parsed() -> None:
    known = RULES.parse_listing(HELP)
    assert known.names == {"ansi", "log_bin", "user", *known.defaults}
    assert known.defaults == {
        "allow_suspicious_udfs": "FALSE",
        "innodb_buffer_pool_size": "134217728",
        "init_connect": "",
        "sql_mode": "NO_ENGINE_SUBSTITUTION",
        "hidden_but_listed": "a value with blanks",
    }


@given(st.text())
def test_help_of_any_kind_does_no_harm(text: str) -> None:
    known = RULES.parse_listing(text)
    assert set(known.defaults) <= known.names


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True),
        st.from_regex(r"([!-~]([ -~]{0,20}[!-~])?)?", fullmatch=True),
        min_size=1,
    )
)
def test_help_gives_back_every_row_of_its_table(rows: dict[str, str]) -> None:
    text = "and boolean options\n" + "-" * 42 + " " + "-" * 15 + "\n"
    text += "".join(f"{name:<42}{value}\n" for name, value in rows.items())
    known = RULES.parse_listing(text + "\nTo see what values\n")
    kept = {n.replace("-", "_"): v for n, v in rows.items() if v != "(No default value)"}
    assert known.defaults == kept
    assert known.names == {name.replace("-", "_") for name in rows}


@pytest.mark.parametrize(
    "name",
    [
        "log_bin", "log-bin", "LOG_BIN", "skip_log_bin", "skip-log-bin", "disable_log_bin",
        "enable_log_bin", "loose_log_bin", "loose_skip_log_bin", "maximum_innodb_log_file_size",
        "skip_name_resolve",
    ],
)  # fmt: skip
def test_forms_of_a_known_name(name: str) -> None:
    assert options.knows(RULES, KNOWN, name)


@pytest.mark.parametrize(
    "name", ["log_bi", "log", "name_resolve", "skip_", "", "skip_skip_log_bin"]
)
def test_beginnings_and_other_names_are_unknown(name: str) -> None:
    assert not options.knows(RULES, KNOWN, name)


def test_forms_of_names() -> None:
    assert RULES.forms("loose-skip-Log-bin") == ("skip_log_bin", "log_bin")
    assert RULES.forms("log_bin") == ("log_bin",)


def test_what_is_known_is_applied_with_underscores_in_order() -> None:
    result = fit(option("skip-name-resolve", value=None), option("log-bin", value="x"))
    assert RULES.arguments(result.applied) == ["--skip_name_resolve", "--log_bin=x"]
    assert result.left_out == ()


@pytest.mark.parametrize("name", ["temp_pool", "loose_temp_pool"])
def test_optional_and_loose_options_are_left_out_with_the_reason(name: str) -> None:
    unwanted = option(name, optional=name == "temp_pool")
    result = fit(option("log_bin"), unwanted)
    assert [o.name for o in result.applied] == ["log_bin"]
    assert [(x.option, x.reason) for x in result.left_out] == [
        (unwanted, f"mysql-x has no option {name}")
    ]


def test_all_unknown_options_are_refused_at_once() -> None:
    with pytest.raises(UserError) as caught:
        fit(option("log_bim"), option("log_bin"), option("wild_guess"))
    assert caught.value.message == (
        "configuration 'mine' has 2 options that mysql-x does not know\n"
        "  log_bim (layer 'layer'); nearest: log_bin\n"
        "  wild_guess (layer 'layer')"
    )
    assert caught.value.hint is not None
    assert "optional" in caught.value.hint


def test_an_option_that_another_makes_ignored_is_left_out() -> None:
    loser = option("innodb_log_file_size", value="2G")
    result = fit(loser, option("innodb_redo_log_capacity", value="4G"))
    assert [o.name for o in result.applied] == ["innodb_redo_log_capacity"]
    assert [(x.option, x.reason) for x in result.left_out] == [
        (loser, "mysql-x ignores it because innodb_redo_log_capacity is set")
    ]


def test_it_stays_where_the_other_is_not_known() -> None:
    known = servers.KnownOptions(frozenset({"innodb_log_file_size"}))
    wanted = configuration(
        option("innodb_log_file_size"), option("innodb_redo_log_capacity", optional=True)
    )
    result = options.fit_known("mysql-x", RULES, known, wanted)
    assert [o.name for o in result.applied] == ["innodb_log_file_size"]


def test_an_attached_server_takes_no_options() -> None:
    server = servers.AttachedServer("cloud", "mysql", "mysql://u:p@h/")
    assert options.fit(server, configuration()).applied == ()
    with pytest.raises(UserError, match="cloud is attached"):
        options.fit(server, configuration(option("log_bin")))


def test_blanks_without_end_in_a_table_of_options_cost_no_more_than_reading_them() -> None:
    table = "-" * 30 + " --\na b" + " " * 4_000_000 + "c\nd      e \nf\n"
    found = RULES.parse_listing("x\n" + table)
    assert found.names == {"a", "d", "f"}
    assert (found.defaults["d"], found.defaults["f"]) == ("e", "")


LATEST = servers.KnownOptions(
    frozenset(
        {"innodb_redo_log_capacity", "binlog_expire_logs_seconds", "log_replica_updates", "log_bin"}
    )
)


def fit_latest(*wanted: servers.Option) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the applied options with their values, and why others were left out."""
    fitted = options.fit_known("mysql-9.7.4", RULES, LATEST, configuration(*wanted))
    return (
        {each.name: each.value for each in fitted.applied},
        {each.option.name: each.reason for each in fitted.left_out},
    )


def test_an_option_that_a_server_no_longer_has_is_set_by_its_successor() -> None:
    applied, left_out = fit_latest(
        option("innodb_log_file_size", value="256M"),
        option("expire_logs_days", value="7", optional=True),
        option("skip_log_slave_updates", value=None),
    )
    assert applied == {
        "innodb_redo_log_capacity": "512M",
        "binlog_expire_logs_seconds": "604800",
        "skip_log_replica_updates": None,
    }
    assert left_out == {
        "innodb_log_file_size": "mysql-9.7.4 has innodb_redo_log_capacity in its place: 512M",
        "expire_logs_days": "mysql-9.7.4 has binlog_expire_logs_seconds in its place: 604800",
        "skip_log_slave_updates": "mysql-9.7.4 has skip_log_replica_updates in its place",
    }


def test_successor_counts_the_requested_files() -> None:
    applied, left_out = fit_latest(
        option("innodb_log_files_in_group", value="4"), option("innodb_log_file_size", value="64M")
    )
    assert applied == {"innodb_redo_log_capacity": "256M"}
    assert left_out.keys() == {"innodb_log_files_in_group", "innodb_log_file_size"}


def test_a_successor_that_is_set_itself_keeps_its_value() -> None:
    applied, left_out = fit_latest(
        option("innodb_log_file_size", value="256M", optional=True),
        option("innodb_redo_log_capacity", value="1G"),
    )
    assert applied == {"innodb_redo_log_capacity": "1G"}
    assert left_out == {"innodb_log_file_size": "mysql-9.7.4 has no option innodb_log_file_size"}


def test_a_server_that_has_the_option_gets_no_successor() -> None:
    fitted = fit(option("innodb_log_file_size", value="256M"))
    assert [(each.name, each.value) for each in fitted.applied] == [
        ("innodb_log_file_size", "256M")
    ]


def test_a_number_times_another_is_a_number() -> None:
    applied, _ = fit_latest(option("expire_logs_days", value="128"))
    assert applied == {"binlog_expire_logs_seconds": "11059200"}
