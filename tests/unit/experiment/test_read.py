"""Test reading experiment files: scales, defaults, limits, and the position of every error."""

from dataclasses import replace
from pathlib import Path

import pytest

from millrace import workloads
from millrace.campaign.run_records import experiment_spec
from millrace.errors import UserError, ValidationError
from millrace.experiment.model import Factor
from millrace.experiment.plan import expand
from millrace.experiment.read import AS_WRITTEN, Overrides, read
from millrace.workloads.defaults import with_sizes
from tests.support import experiment_files as files
from tests.support.experiment_files import DRIVEN, SMALL, experiment_text, mistakes_of, parsed


@pytest.mark.parametrize(
    ("scale", "rows", "n_servers", "n_configurations"),
    [
        ("smoke", 100_000, 6, 3),
        ("demo", None, 3, 1),
        ("laptop", 2_000_000, 6, 3),
        ("published", 46_741_126, 6, 3),
    ],
)
def test_the_shipped_experiment_at_each_scale(
    scale: str, rows: int | None, n_servers: int, n_configurations: int
) -> None:
    experiment = files.read_shipped(scale)
    factors = {factor.name: factor.levels for factor in experiment.factors}
    assert len(factors["server"]) == n_servers
    assert len(factors["configuration"]) == n_configurations
    assert rows is None or experiment.parameters["rows"] == rows
    assert experiment.compare.base == "mysql-5.6.24"
    assert experiment.blocks >= 3
    assert experiment.published == "S1"


def test_without_a_scale_the_default_one_is_taken() -> None:
    assert files.read_shipped(None).scale == "laptop"


def test_a_file_without_scales_is_run_as_written_with_defaults() -> None:
    experiment = parsed(SMALL)
    assert experiment.scale == AS_WRITTEN
    assert (experiment.blocks, experiment.margin, experiment.seed) == (10, 0.02, None)
    assert experiment.parameters == {"rows": 1000, "data_seed": 171773}
    assert experiment.factors[1] == Factor("configuration", ("default",))
    assert experiment.text == SMALL
    assert experiment.title == "small"


def test_a_request_overrides_the_file() -> None:
    wanted = Overrides(blocks=7, margin_percent=5, seed=0, base="mysql-5.7.22")
    experiment = parsed("seed = 3\n" + SMALL, overrides=wanted)
    assert (experiment.blocks, experiment.margin, experiment.seed) == (7, 0.05, 0)
    assert experiment.compare.base == "mysql-5.7.22"


def test_a_requested_base_that_is_no_level_is_refused() -> None:
    with pytest.raises(UserError, match=r"base 'mysql-8\.0\.12' is not a level"):
        parsed(SMALL, overrides=Overrides(base="mysql-8.0.12"))


def test_a_candidate_of_several_is_chosen_by_request() -> None:
    text = SMALL.replace('"mysql-5.7.22"]', '"mysql-5.7.22", "mysql-8.0.12"]')
    one = parsed(text, overrides=Overrides(candidate="mysql-8.0.12"))
    assert one.factors[0].levels == ("mysql-5.6.24", "mysql-8.0.12")
    for wrong in ("mysql-5.6.24", "mysql-9"):
        with pytest.raises(UserError, match="not a level of server") as unknown:
            parsed(text, overrides=Overrides(candidate=wrong))
        assert unknown.value.hint == "use one of: mysql-5.7.22, mysql-8.0.12"


def test_a_scale_overrides_levels_base_blocks_and_parameters() -> None:
    text = SMALL + (
        '[scales.other]\nrows = 5\nblocks = 9\nmargin_percent = 3.5\nbase = "mysql-5.7.22"\n'
        'factors.server = ["mysql-5.7.22", "mysql-8.0.12"]\n'
    )
    experiment = parsed(text)
    assert experiment.scale == "other"
    assert (experiment.blocks, experiment.margin) == (9, 0.035)
    assert experiment.parameters["rows"] == 5
    assert experiment.compare.base == "mysql-5.7.22"
    assert experiment.factors[0].levels == ("mysql-5.7.22", "mysql-8.0.12")


def test_several_scales_and_no_default_must_be_chosen() -> None:
    text = SMALL + "[scales.one]\nrows = 1\n[scales.two]\nrows = 2\n"
    with pytest.raises(UserError, match="several scales") as raised:
        parsed(text)
    assert "one, two" in str(raised.value.hint)
    with pytest.raises(UserError, match="did you mean 'two'"):
        parsed(text, scale="tow")


def test_an_alias_stands_for_another_server() -> None:
    server = '{ levels = ["mysql-5.6.24", "again"], aliases = { again = "mysql-5.6.24" } }'
    text = SMALL.replace('["mysql-5.6.24", "mysql-5.7.22"]', server)
    factor = parsed(text).factors[0]
    assert factor.levels == ("mysql-5.6.24", "again")
    assert factor.aliases == {"again": "mysql-5.6.24"}


def test_configurations_of_the_file_come_with_what_they_extend() -> None:
    text = SMALL.replace("[compare]", 'configuration = ["mine"]\n[compare]') + (
        '[configurations.mine]\nextends = "wmf"\noptions.innodb_buffer_pool_size = "3G"\n'
    )
    assert parsed(text).configurations.keys() == {"mine", "wmf", "s1-sizes", "default"}


@pytest.mark.parametrize(
    ("old", "new", "where", "line", "message", "near"),
    [
        ("rows", "row", "parameters.row", 11, "unknown key", "rows"),
        ("[factors]", "[factors]\nservr = []", "factors.servr", 5, "unknown factor", "server"),
        ('"mysql-5.7.22"', '"mysql-5.7.21"', "factors.server[1]", 5, "unknown", "mysql-5.7.22"),
        ('"mysql-5.7.22"', "5.7", "factors.server[1]", 5, "5.7 is not text", None),
        ('"mysql-5.7.22"', '"mysql-5.6.24"', "factors.server[1]", 5, "listed twice", None),
        ('["mysql-5.6.24", "mysql-5.7.22"]', "[]", "factors.server", 5, "no levels", None),
        ('["mysql-5.6.24", "mysql-5.7.22"]', '"x"', "factors.server", 5, "not a list", None),
        ('"load-data"', '"load-dat"', "workload", 2, "unknown workload", "load-data"),
        ('"small"', '"a b"', "name", 1, "is not a name", None),
        ('"small"', "5", "name", 1, "is not a name", None),
        ('"small"', '""', "name", 1, "is not a name", None),
        ('"small"', '".small"', "name", 1, "is not a name", None),
        ('"small"', '"-small"', "name", 1, "is not a name", None),
        ('"small"', f'"{"s" * 65}"', "name", 1, "has 65 characters", None),
        ('"mysql-5.6.24"\n', '"mysql-5.6"\n', "compare.base", 8, "unknown level", "mysql-5.6.24"),
        ('base = "mysql-5.6.24"', "", "compare.base", 7, "is missing", None),
        ("[compare]", '[compare]\nfactor = "engine"', "compare.factor", 8, "is not varied", None),
        ("[compare]", '[compare]\nfactor = "servr"', "compare.factor", 8, "unknown", "server"),
        ("rows = 1000", "", "parameters.rows", 10, "is missing", None),
        ("rows = 1000", "rows = 0", "parameters.rows", 11, "got 0", None),
        ("rows = 1000", "rows = 1e3", "parameters.rows", 11, "got 1000.0", None),
        ("[compare]", "replica.server = []\n[compare]", "factors.replica.server", 7, "role", None),
        ("[compare]", '"server.server" = 1\n[compare]', "factors.server.server", 7, "prefix", None),
        ("[compare]", 'load_mode = ["x"]\n[compare]', "factors.load_mode[0]", 7, "unknown", None),
        ("[compare]", "engine = [1]\n[compare]", "factors.engine[0]", 7, "got 1", None),
        ("[compare]", 'configuration=["wfm"]\n[compare]', "factors.configuration[0]", 7, "", "wmf"),
        ("[parameters]", "[parameter]", "parameter", 10, "unknown key", "parameters"),
        ("name", "blocks = 0\nname", "blocks", 1, "got 0", None),
        ("name", "blocks = true\nname", "blocks", 1, "got true", None),
        ("name", "max_time = 45\nname", "max_time", 1, "45 is not a duration", None),
        ("name", 'max_time = "45 m"\nname', "max_time", 1, "is not a duration", None),
        ("name", "margin_percent = 0\nname", "margin_percent", 1, "got 0", None),
        ("name", "margin_percent = nan\nname", "margin_percent", 1, "got nan", None),
        ("name", "margin_percent = inf\nname", "margin_percent", 1, "got inf", None),
        ("name", "margin_percent = 51\nname", "margin_percent", 1, "got 51", None),
        ("name", "seed = -1\nname", "seed", 1, "got -1", None),
        ("name", 'published = "S9"\nname', "published", 1, "unknown published study 'S9'", None),
        ("name", 'published = "S1 "\nname', "published", 1, "unknown published study 'S1 '", "S1"),
        ('"small"', '"latest"', "name", 1, "is reserved for the newest run", None),
        ('"small"', '"smäll"', "name", 1, "is not a name", None),
        ('"small"', '"small\\n"', "name", 1, "is not a name", None),
        ("name", 'title = "a\\u001b[2Jb"\nname', "title", 1, "control characters", None),
        ("name", 'title = "two\\nlines"\nname', "title", 1, "control characters", None),
        ("name", "scales = 1\nname", "scales", 1, "not a table", None),
        ("name", 'default_scale = "x"\nname', "default_scale", 1, "unknown scale", None),
        ("rows = 1000", "rows = 1\n[scales.a]\nblock = 2", "scales.a.block", 13, "key", "blocks"),
        ("rows = 1000", "rows = 1\n[scales.a]\nrows = 0", "scales.a.rows", 13, "got 0", None),
        ("rows = 1000", "[scales.a]\nblocks = 4", "scales.a.rows", 11, "is missing", None),
        ("rows = 1000", 'rows = 1\n[scales.a]\nbase = "b"', "scales.a.base", 13, "unknown", None),
        ("rows = 1000", "rows = 1\n[configurations.wmf]", "configurations.wmf", 12, "has", None),
        (
            "rows = 1000",
            "rows = 1\n[configurations.mine.options]\nport = 1",
            "configurations.mine.options.port",
            13,
            "set by millrace",
            None,
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place_and_the_nearest_name(
    old: str, new: str, where: str, line: int, message: str, near: str | None
) -> None:
    found = mistakes_of(SMALL.replace(old, new, 1))
    here = next(mistake for mistake in found if mistake.where == where)
    assert here.line == line
    assert message in here.message
    assert here.nearest == near
    assert {mistake.where for mistake in found} == {where}


def test_factor_among_parameters_is_sent_to_its_table() -> None:
    [found] = mistakes_of(DRIVEN.replace("table_size", 'engine = "InnoDB"\ntable_size'))
    assert found.where == "parameters.engine"
    assert found.message == "engine is a factor: write it in [factors]"
    of_scale = f'{DRIVEN}\n[scales.short]\nengine = "InnoDB"\n'
    [found] = mistakes_of(of_scale)
    assert found.where == "scales.short.engine"
    assert found.message == "engine is a factor: write it in [scales.short.factors]"


def test_parameter_among_factors_is_sent_to_its_table() -> None:
    [found] = mistakes_of(DRIVEN.replace("[compare]", "time_s = [3]\n\n[compare]"))
    assert found.where == "factors.time_s"
    assert found.message == "time_s is a parameter: write it in [parameters]"


def test_word_of_several_tests_lists_them_and_suggests_none() -> None:
    [found] = mistakes_of(DRIVEN.replace('"point-query"', '"select"'))
    assert found.nearest is None
    assert found.expected is not None
    assert "oltp_point_select, select_random_points" in found.expected


def test_an_unquoted_version_gets_a_hint() -> None:
    found = mistakes_of(SMALL.replace('"mysql-5.7.22"', "8.0"))
    assert 'versions need quotes: "8.0"' in str(found[0])
    found = mistakes_of(SMALL.replace('"mysql-5.7.22"', "true"))
    assert "true is not text" in str(found[0])
    assert "versions" not in str(found[0])


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = SMALL.replace("5.7.22", "5.7.2").replace("rows", "row") + "[scales.x]\nblocks = 0\n"
    found = mistakes_of("titel = 1\n" + text)
    assert [mistake.where for mistake in found] == [
        "titel",
        "titel",
        "factors.server[1]",
        "parameters.row",
        "scales.x.blocks",
    ]


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        # A misspelt workload: its factors and parameters are those of the nearest.
        (
            {"load-data": "load-dat", "1000": "0", "[compare]": "engin = [1]\n[compare]"},
            ["workload", "factors.engin", "factors.engin[0]", "parameters.rows"],
        ),
        # One that resembles none: only settings common to all workloads can be checked.
        (
            {"load-data": "zzz", "rows": "x", "[compare]": 'y = [1]\n[compare]\nfactor = "y"'},
            ["workload"],
        ),
        # A wrong factor hides neither a wrong base nor a missing one.
        (
            {"[compare]": '[compare]\nfactor = "servr"', 'base = "mysql-5.6.24"': 'base = "x"'},
            ["compare.factor", "compare.base"],
        ),
        (
            {"[compare]": '[compare]\nfactor = "zzz"', 'base = "mysql-5.6.24"': 'base = "x"'},
            ["compare.factor", "compare.base"],
        ),
        ({"[compare]": '[compare]\nfactor = "zzz"'}, ["compare.factor"]),
        (
            {"[compare]": '[compare]\nfactor = "zzz"', 'base = "mysql-5.6.24"': ""},
            ["compare.base", "compare.factor"],
        ),
        # Settings under a misspelt key are checked at their line.
        ({"rows = 1000": "row = 0"}, ["parameters.row", "parameters.row"]),
        ({"rows = 1000": "data_sed = 1"}, ["parameters.rows", "parameters.data_sed"]),
        (
            {"[parameters]\nrows = 1000": "[parameter]\ndata_seed = 1"},
            ["parameter.rows", "parameter"],
        ),
        (
            {"server = [": "servr = [", "5.7.22": "5.7.2"},
            ["factors.servr", "factors.servr[1]"],
        ),
        ({"server = [": "servr = 1 # ["}, ["factors.servr", "factors.servr"]),
        ({"[factors]": "[factor]", "5.7.22": "5.7.2"}, ["factor", "factor.server[1]"]),
        ({"[compare]": "[compar]", "base": "bas"}, ["compar", "compar.bas"]),
        ({"rows = 1000": "[scale.x]\nrows = 0"}, ["scale", "scale.x.rows"]),
        ({'name = "small"': "nam = 1"}, ["nam", "nam"]),
        ({'name = "small"': 'name = "small"\nfactor = "server"'}, ["factor"]),
        ({"[factors]": "factors = 1\n[more]"}, ["factors", "more"]),
        ({"[parameters]": "", "rows": "engine"}, ["compare.engine", "parameters.rows"]),
        # A correct base with wrong levels, and one that is wrong at every scale.
        ({'["mysql-5.6.24"': '["mysql-5.6.2"'}, ["factors.server[0]"]),
        (
            {
                'base = "mysql-5.6.24"': 'base = "mysql-5.6"',
                "= 1000": '= 1\n[scales.a]\nfactors.server = ["mysql-5.7.22"]\n[scales.b]',
            },
            ["compare.base"],
        ),
    ],
)  # fmt: skip
def test_no_mistake_hides_another_or_makes_one_up(
    changes: dict[str, str], places: list[str]
) -> None:
    text = SMALL
    for old, new in changes.items():
        text = text.replace(old, new, 1)
    assert sorted(mistake.where for mistake in mistakes_of(text)) == sorted(places)


@pytest.mark.parametrize(
    "level",
    ["InnoDB); drop database x; -- ", "a b", "InnoDB\\n", "1x", "", "é", "x" * 65, "a`", "a-b"],
)
def test_an_engine_is_a_name_and_nothing_else(level: str) -> None:
    for levels in (f'["{level}"]', f'{{ levels = ["again"], aliases = {{ again = "{level}" }} }}'):
        text = SMALL.replace("[compare]", f"engine = {levels}\n[compare]")
        (found,) = mistakes_of(text)
        assert "is not a name" in found.message
        assert found.where.startswith("factors.engine")


def test_levels_that_differ_in_case_are_the_same_engine() -> None:
    text = SMALL.replace("[compare]", 'engine = ["InnoDB", "innodb"]\n[compare]')
    (found,) = mistakes_of(text)
    assert (found.where, found.line) == ("factors.engine[1]", 7)
    assert found.message == '"innodb" is listed twice, first as "InnoDB"'


@pytest.mark.parametrize(
    ("key", "least", "most"), [("rows", 1, 2**56), ("data_seed", 0, 2**63 - 1)]
)
def test_parameters_are_what_the_load_generator_takes(key: str, least: int, most: int) -> None:
    def with_value(value: int | str) -> str:
        others = "" if key == "rows" else "rows = 1000\n"
        return SMALL.replace("rows = 1000", f"{others}{key} = {value}")

    for value in (least, most):
        assert parsed(with_value(value)).parameters[key] == value
    for wrong in (least - 1, most + 1, "nan", "inf", "true", "0x" + "f" * 5000):
        (found,) = mistakes_of(with_value(wrong))
        assert found.expected == f"an integer from {least} to {most}"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert files.read_text(tmp_path, "\ufeff" + SMALL).name == "small"


def test_comments_and_spaces_do_not_make_it_another_experiment() -> None:
    own = "[configurations.mine]\noptions.max_connections = 1\n"
    text = SMALL.replace("[compare]", 'configuration = ["mine"]\n[compare]') + own
    edited = "# first\n" + text.replace("\n", "  # why not\n\n").replace("1000", "1_000")
    before, after = (expand(parsed(each), seed=1) for each in (text, edited))
    assert after.digest == before.digest
    assert after.trials == before.trials
    assert experiment_spec(after.experiment) == experiment_spec(before.experiment)


def test_unselected_scales_are_checked() -> None:
    text = SMALL + "[scales.good]\n[scales.bad]\nblocks = 0\n"
    with pytest.raises(ValidationError, match=r"line 14, scales\.bad\.blocks"):
        parsed(text, scale="good")


def test_aliases_are_checked() -> None:
    server = '{ levels = ["mysql-5.6.24"], aliases = { b = "mysql-5.6.2", c = "mysql-5.6.24" } }'
    found = mistakes_of(SMALL.replace('["mysql-5.6.24", "mysql-5.7.22"]', server))
    assert {(mistake.where, mistake.nearest) for mistake in found} == {
        ("factors.server.aliases.b", None),
        ("factors.server.aliases.b", "mysql-5.6.24"),
        ("factors.server.aliases.c", None),
    }


def test_a_file_that_is_not_there_not_text_or_a_directory(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"name = '\xff'")
    for path, message in (
        (tmp_path / "none.toml", "none.toml does not exist"),
        (binary, "not UTF-8"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(UserError, match=message):
            read(path, scale=None, context=files.CONTEXT)


def test_broken_toml_is_reported_with_file_and_line() -> None:
    (found,) = mistakes_of(SMALL + "x = = 1\n")
    assert found.line == 12
    (unfinished,) = mistakes_of(SMALL + 'x = [1,\n"a"')
    assert unfinished.line == 13


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000])
def test_toml_that_the_parser_gives_up_on_is_refused(value: str) -> None:
    with pytest.raises(UserError, match=r"experiment\.toml has a number with thousands of digits"):
        parsed(f"x = {value}\n")


def test_empty_file_lists_required_keys() -> None:
    assert {mistake.where for mistake in mistakes_of("")} == {
        "name",
        "workload",
        "compare",
        "factors.server",
    }


def test_the_shipped_experiment_is_where_documents_say() -> None:
    assert files.SHIPPED.is_file()


ONE_SERVER = SMALL.replace(', "mysql-5.7.22"]', "]")


@pytest.mark.parametrize(
    ("lines", "asked", "sequential", "blocks", "max_time_s"),
    [
        ("", Overrides(), True, 10, None),
        ("blocks = 20\n", Overrides(), True, 20, None),
        ("blocks = 6\n", Overrides(), True, 6, None),
        ("blocks = 5\n", Overrides(), False, 5, None),
        ("blocks = 3\n", Overrides(), False, 3, None),
        ("", Overrides(blocks=20), False, 20, None),
        ("", Overrides(max_blocks=30), True, 30, None),
        ("", Overrides(max_blocks=4), False, 4, None),
        ("", Overrides(max_time_s=600.0), True, 100, 600.0),
        ("blocks = 5\n", Overrides(max_time_s=600.0), True, 100, 600.0),
        ("blocks = 200\n", Overrides(max_time_s=600.0), True, 200, 600.0),
        ("", Overrides(max_time_s=600.0, max_blocks=5), True, 5, 600.0),
        ('max_time = "1h30min"\n', Overrides(), True, 10, 5400.0),
        ('max_time = "1h30min"\n', Overrides(max_time_s=60.0), True, 100, 60.0),
        ('max_time = "1h30min"\n', Overrides(blocks=4), False, 4, None),
    ],
)
def test_who_decides_how_many_blocks_there_are(
    lines: str, asked: Overrides, *, sequential: bool, blocks: int, max_time_s: float | None
) -> None:
    found = parsed(lines + SMALL, overrides=asked)
    assert (found.sequential, found.blocks, found.max_time_s) == (sequential, blocks, max_time_s)


def test_where_nothing_is_compared_nothing_can_be_decided() -> None:
    assert not parsed(ONE_SERVER).sequential


def test_a_scale_has_limits_of_its_own() -> None:
    scales = '[scales.short]\nblocks = 8\nmax_time = "10min"\n[scales.long]\n'
    text = f'max_time = "2h"\n{SMALL}{scales}'
    short, long = (parsed(text, scale=scale) for scale in ("short", "long"))
    assert (short.blocks, short.max_time_s) == (8, 600.0)
    assert (long.blocks, long.max_time_s) == (10, 7200.0)


def test_the_disk_space_of_a_row_is_compared_where_tables_are_compressed() -> None:
    def metrics(levels: str) -> set[str]:
        factor = f"[factors]\ncompression = [{levels}]\n"
        made = parsed(SMALL.replace("[factors]\n", factor))
        return set(made.checked_workload.metrics)

    assert "bytes_per_row" in metrics('"none", "row"')
    assert "bytes_per_row" in metrics('"page-zlib"')
    assert "bytes_per_row" not in metrics('"none"')


def test_tables_that_maintenance_drops_have_no_disk_space_of_a_row() -> None:
    assert "bytes_per_row" not in with_sizes(workloads.load("drop-table"))["metrics"]
    assert "bytes_per_row" in with_sizes(workloads.load("linkbench"))["metrics"]


def test_drop_database_has_metrics_where_it_is_timed() -> None:
    def metrics(scale: str) -> set[str]:
        text = SMALL.replace("load-data", "sysbench").replace("rows = 1000", "time_s = 1")
        made = parsed(f"{text}\n[scales.laptop]\n{scale}\n")
        return set(made.checked_workload.metrics)

    drops = {"drop_time", "drop_file_removal", "drop_own_work"}
    assert metrics('drop_after = "on"') >= drops
    assert drops.isdisjoint(metrics(""))


def test_all_collectors_look_on_unless_the_file_lists_them() -> None:
    assert parsed(SMALL).collectors == ("threads", "disk")
    assert parsed(f"collectors = []\n{SMALL}").collectors == ()
    assert parsed(f'collectors = ["disk"]\n{SMALL}').collectors == ("disk",)
    asked = Overrides(collectors=("threads",))
    assert parsed(f"collectors = []\n{SMALL}", overrides=asked).collectors == ("threads",)


SYSBENCH = SMALL.replace("load-data", "sysbench").replace("rows =", "table_size =")


def test_instructions_are_counted_when_file_or_command_requests() -> None:
    assert parsed(SYSBENCH).counted_starts == 0
    counted = parsed(f'collectors = ["instructions", "disk"]\n{SYSBENCH}')
    assert (counted.collectors, counted.counted_starts) == (("disk",), 4)
    counted = parsed(f'collectors = ["all", "instructions"]\n{SYSBENCH}')
    assert (counted.collectors, counted.counted_starts) == (("threads", "disk"), 4)
    asked = Overrides(collectors=("threads", "instructions"))
    counted = parsed(SYSBENCH, overrides=asked)
    assert (counted.collectors, counted.counted_starts) == (("threads",), 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SMALL, "this workload has no clients"),
        (
            SYSBENCH.replace("[compare]", "clients = [1, 8]\n[compare]").replace(
                'base = "mysql-5.6.24"', 'factor = "clients"\nbase = 1'
            ),
            "instructions are counted with a single client",
        ),
    ],
)
def test_what_has_no_instructions_to_compare_is_refused(text: str, why: str) -> None:
    (mistake,) = mistakes_of(f'collectors = ["instructions"]\n{text}')
    assert (mistake.where, mistake.line) == ("collectors", 1)
    assert why in mistake.message


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        ('collectors = ["disc"]', "collectors", "unknown collector 'disc'"),
        ('collectors = "disk"', "collectors", "is not a list"),
        ("profile_blocks = -1", "profile_blocks", "-1"),
    ],
)
def test_mistakes_of_what_is_observed_are_named(line: str, where: str, message: str) -> None:
    (mistake,) = mistakes_of(f"{line}\n{SMALL}")
    assert mistake.where == where
    assert message in mistake.message


def test_a_scale_may_have_its_own_number_of_profiled_blocks() -> None:
    text = f"profile_blocks = 3\n{SMALL}\n[scales.small]\nprofile_blocks = 0\n[scales.large]\n"
    assert parsed(text, scale="small").profile_blocks == 0
    assert parsed(text, scale="large").profile_blocks == 3
    asked = Overrides(profile_blocks=1)
    assert parsed(text, scale="large", overrides=asked).profile_blocks == 1
    assert parsed(SMALL).profile_blocks == 0


DROPS = experiment_text(
    "drop-table",
    blocks=3,
    factors={"drop": ["tables", "database"], "dropped_pages": ["buffer_pool", "disk"]},
    compare=("server", "mysql-5.6.24"),
    parameters={"snapshot": "on"},
)


def diagnosed(text: str, attached: tuple[str, ...] = ()) -> str:
    found = mistakes_of(text, context=replace(files.CONTEXT, attached=attached))
    return "\n".join(map(str, found))


def test_levels_that_do_different_work_are_not_compared() -> None:
    text = DROPS.replace('"server"\nbase = "mysql-5.6.24"', '"drop"\nbase = "tables"')
    found = diagnosed(text)
    assert "compare.factor" in found
    assert "do different work" in found
    assert "drop may stay in [factors]" in found


def test_pages_are_on_the_disk_only_after_a_start() -> None:
    assert parsed(DROPS).blocks == 3
    without = diagnosed(DROPS.replace('"on"', '"off"'))
    assert "factors.dropped_pages" in without
    assert "a server keeps running after it has loaded its tables" in without
    assert "does not start attached servers" in diagnosed(DROPS, ("mysql-5.7.22",))
    other = DROPS.replace('"buffer_pool", "disk"', '"buffer_pool"').replace('"on"', '"off"')
    assert parsed(other).blocks == 3
