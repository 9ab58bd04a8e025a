"""Test experiments with driven clients: tests, numbers of clients, switches, options, loops."""

from dataclasses import replace
from typing import Any

import pytest

from millrace import databases, workloads
from millrace.analysis.compare.metrics import read_metrics
from millrace.campaign.inputs import configuration_of
from millrace.campaign.run_records import experiment_spec
from millrace.errors import ValidationError
from millrace.experiment.estimate import Estimate, Needs, estimate, unmeasured_s
from millrace.experiment.model import Experiment
from millrace.experiment.plan import chosen, expand
from millrace.quantities import parse_size
from millrace.workloads.defaults import in_open_loop
from tests.support.experiment_files import experiment_text, mistakes_of, parsed, places_refused
from tests.support.small_workload import driving

FILE = experiment_text(
    "small",
    servers=["mysql-5.6.24", "mariadb-10.11.19"],
    factors={"test": ["point", "one"], "clients": [1, 8]},
).removesuffix("[parameters]\n")


@pytest.fixture(autouse=True)
def _a_small_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the workload of these tests beside the shipped ones."""
    shipped, names = workloads.load, workloads.names()

    def load(name: str) -> Any:
        return driving() if name == "small" else shipped(name)

    monkeypatch.setattr(workloads, "names", lambda: (*names, "small"))
    monkeypatch.setattr(workloads, "load", load)
    monkeypatch.setattr(
        workloads, "of_test", lambda test: "small" if test in driving()["tests"] else None
    )


def with_lines(*lines: str) -> str:
    return FILE.replace("[compare]", "\n".join((*lines, "[compare]")))


def test_background_clients_need_an_end_by_time() -> None:
    crowded = {**driving()["tests"]["one"], "background_clients": [{"test": "point"}]}
    tests = {**driving()["tests"], "one": crowded}
    experiment = replace(parsed(FILE), workload=driving(tests=tests))
    expand(experiment, seed=1)
    with pytest.raises(ValidationError, match="so it must end by time"):
        expand(replace(experiment, parameters={"operations": 9}), seed=1)


def levels_of(experiment: Experiment, name: str) -> tuple[Any, ...]:
    return next(factor.levels for factor in experiment.factors if factor.name == name)


def test_what_clients_imply_may_be_varied() -> None:
    text = with_lines(
        'protocol = ["text", "prepared"]',
        'transport = ["tcp", "socket"]',
        "tls = [true, false]",
        "rate = [0, 100.0, 0.5]",
        'arrivals = ["constant"]',
        "[parameters]",
        "time_s = 0.5",
        'client_cpus = "0-1"',
    )
    experiment = parsed(text)
    assert levels_of(experiment, "clients") == (1, 8)
    assert levels_of(experiment, "tls") == (True, False)
    assert [repr(level) for level in levels_of(experiment, "rate")] == ["0", "100", "0.5"]
    assert experiment.parameters["time_s"] == 0.5
    assert experiment.parameters["warmup_s"] == 5
    # Its default depends on the test, so it stays open.
    assert "range_size" not in experiment.parameters


@pytest.mark.parametrize(
    ("rate", "primary"),
    [("", "throughput"), ("rate = [0]", "throughput"), ("rate = [10, 20]", "p99")],
)
def test_latency_is_the_result_of_clients_with_a_rate_of_their_own(rate: str, primary: str) -> None:
    experiment = parsed(with_lines(rate))
    metrics = experiment.checked_workload.metrics
    assert [name for name, metric in metrics.items() if metric.primary] == [primary]
    assert next(iter(read_metrics(experiment_spec(experiment).workload))).name == primary


def test_a_primary_metric_of_the_workload_stays_in_an_open_loop() -> None:
    own = {**driving()["metrics"], "rows": {**driving()["metrics"]["throughput"], "primary": True}}
    own["throughput"] = {**own["throughput"], "primary": False}
    definition = driving(metrics=own)
    assert in_open_loop(definition) == definition


@pytest.mark.parametrize(
    ("line", "where", "expected"),
    [
        ("rate = [-1]", "factors.rate[0]", "a number from 0"),
        ("rate = [nan]", "factors.rate[0]", "a number from 0"),
        (
            "rate = [1, 1.0]",
            "factors.rate[1]",
            "each level once; to measure a level twice, use an alias",
        ),
        ("tls = [1]", "factors.tls[0]", "true or false"),
        ('tls = ["on"]', "factors.tls[0]", "true or false"),
        ('protocol = ["txt"]', "factors.protocol[0]", "one of prepared, text"),
        ("options.innodb_page_size = [4096, 4096]", "factors.options.innodb_page_size[1]", None),
        ("options.port = [1]", "factors.options.port[0]", "no such line"),
        ('options."a b" = [1]', "factors.options.a b[0]", "letters, digits and underscores"),
        ("options.log-bin = [true]", "factors.options.log-bin[0]", "options.log_bin"),
        (
            "options.skip_log_bin = [true]",
            "factors.options.skip_log_bin[0]",
            "options.log_bin, true for on and false for off",
        ),
        ("options.loose_x = [1]", "factors.options.loose_x[0]", "options.x"),
        ("options.x = []", "factors.options.x", 'a list such as ["one", "another"]'),
        ("options.x = 5", "factors.options.x", 'a list such as ["one", "another"]'),
    ],
)
def test_wrong_levels(line: str, where: str, expected: str | None) -> None:
    found = mistakes_of(with_lines(line))
    assert [mistake.where for mistake in found] == [where]
    assert expected is None or found[0].expected == expected


@pytest.mark.parametrize("level", ["0", "true", "1.5", '"8"', "100001"])
def test_clients_are_counted(level: str) -> None:
    [found] = mistakes_of(FILE.replace("[1, 8]", f"[{level}]"))
    assert found.where == "factors.clients[0]"
    assert found.expected == "an integer from 1 to 100000"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("time_s = 0", "a number from 0.1"),
        ('load_method = "fast"', "one of auto, local, multi_row, single_row"),
        ('client_cpus = "1-"', 'numbers of CPUs such as "0" or "1-3,5", or "" for any'),
        ('client_cpus = "3-1"', 'numbers of CPUs such as "0" or "1-3,5", or "" for any'),
        ('busy_poll = "yes"', "one of auto, on, off"),
    ],
)
def test_wrong_parameters(line: str, expected: str) -> None:
    [found] = mistakes_of(with_lines("[parameters]", line))
    assert found.expected == expected


def test_a_test_is_no_workload() -> None:
    [found] = mistakes_of(FILE.replace('workload = "small"', 'workload = "point"'))
    assert found.message == "'point' is a test of the workload small"
    assert found.expected == 'workload = "small", and test = ["point"] in [factors]'


def test_an_unknown_test_gets_the_nearest() -> None:
    [found] = mistakes_of(FILE.replace('"point"', '"pont"'))
    assert (found.where, found.nearest) == ("factors.test[0]", "point")


@pytest.mark.parametrize(
    ("lines", "factor", "base"),
    [
        ((), "clients", "8"),
        (("tls = [false, true]",), "tls", "false"),
        (("options.innodb_page_size = [4096, 16384]",), "options.innodb_page_size", "16384"),
        (("options.log_bin = [false, true]",), "options.log_bin", "false"),
    ],
)
def test_any_factor_may_be_compared(lines: tuple[str, ...], factor: str, base: str) -> None:
    compare = f'factor = "{factor}"\nbase = {base}'
    experiment = parsed(with_lines(*lines).replace('base = "mysql-5.6.24"', compare))
    assert experiment.compare.factor == factor
    assert str(experiment.compare.base).lower() == base


@pytest.mark.parametrize(
    ("factor", "base", "where"),
    [
        ("clients", "true", "compare.base"),  # true is not 1
        ("clients", "2", "compare.base"),
        ("options.x", "1", "compare.factor"),
    ],
)
def test_a_base_is_a_level(factor: str, base: str, where: str) -> None:
    text = FILE.replace('base = "mysql-5.6.24"', f'factor = "{factor}"\nbase = {base}')
    assert [mistake.where for mistake in mistakes_of(text)] == [where]


def test_options_are_laid_over_the_configuration() -> None:
    text = with_lines(
        'configuration = ["mine"]',
        "[factors.options]",
        "innodb_flush_neighbors = [0]",
        "log_bin = [true, false]",
        "innodb_page_size = [4096]",
    ) + (
        "[configurations.mine.options]\nserver_id = 1\nskip_log_bin = true\n"
        "innodb_flush_neighbors = 1\n"
    )
    plan = expand(parsed(text), seed=1)
    assert len(plan.treatments) == 2 * 2 * 2 * 2
    found = {}
    for treatment in plan.treatments:
        asked = configuration_of(plan.experiment, treatment, family="mysql", version="5.6.24")
        assert asked.name == "mine"
        options = {option.name: option.value for option in asked.options}
        assert options["innodb_flush_neighbors"] == "0"
        assert options["innodb_page_size"] == "4096"
        assert options["server_id"] == "1"
        found[treatment.resolved["options.log_bin"]] = {"log_bin", "skip_log_bin"} & options.keys()
        varied = [option for option in asked.options if option.layer == "factor"]
        assert all(option.optional for option in varied)
        assert len(varied) == 3
    assert found == {True: {"log_bin"}, False: {"skip_log_bin"}}


def test_a_scale_varies_options_and_tests_too() -> None:
    text = FILE + (
        "[scales.few]\ntable_size = 10\ntime_s = 1\n"
        'factors.test = ["pair"]\nfactors.options.innodb_page_size = [4096]\n'
    )
    experiment = parsed(text, scale="few")
    assert levels_of(experiment, "test") == ("pair",)
    assert levels_of(experiment, "options.innodb_page_size") == (4096,)
    [treatment, *_] = expand(experiment, seed=1).treatments
    decided = chosen(experiment, treatment)
    assert (decided["test"], decided["clients"], decided["table_size"]) == ("pair", 1, 10)
    assert "options.innodb_page_size" not in decided
    assert "server" not in decided


def test_the_estimate_knows_tables_and_times() -> None:
    def at(**parameters: Any) -> tuple[Estimate, int]:
        lines = [f"{name} = {value}" for name, value in parameters.items()]
        plan = expand(parsed(with_lines("[parameters]", *lines)), seed=1)
        table_bytes = databases.get("mysql").storage.table_bytes
        none = Needs(0, binary_log=False, table_bytes=table_bytes)
        needs = {each.id: [none] for each in plan.treatments}
        return estimate(plan, needs=needs, host_free_bytes=0), len(plan.trials)

    (small, trials), (large, _), (longer, _) = at(), at(table_size=1_000_000), at(time_s=60)
    assert longer.time_s - small.time_s == pytest.approx(trials * 30)
    assert large.time_s > small.time_s
    # 2 tables; 119 characters of c, id and k, and what InnoDB and an index add.
    assert 2e6 * 150 < large.peak_disk_bytes < 2e6 * 300


def test_in_slices_each_server_has_its_share_of_the_memory() -> None:
    text = with_lines('configuration = ["cached-oltp"]', "[parameters]", "table_size = 100_000_000")

    def pool_bytes(*, slices: bool) -> int:
        made = replace(parsed(text), slices=slices)
        treatment = expand(made, seed=1).treatments[0]
        found = configuration_of(made, treatment, family="mysql", version="5.6.24")
        values = {option.name: option.value for option in found.options}
        return parse_size(str(values["innodb_buffer_pool_size"]))

    interleaved, in_slices = pool_bytes(slices=False), pool_bytes(slices=True)
    assert in_slices == pytest.approx(interleaved / 3, rel=0.1)


IN_LOOPS = {"nodes": 1000, "time_s": 100, "warmup_s": 0}
LOOPS = experiment_text("linkbench", blocks=1, parameters=IN_LOOPS)


def in_loops(loops: int) -> Experiment:
    return parsed(f"{LOOPS}loops = {loops}\n")


def test_all_loops_are_compared_beside_the_last_one() -> None:
    once, often = in_loops(1).checked_workload, in_loops(24).checked_workload
    assert set(often.metrics) - set(once.metrics) == {"throughput_of_loops"}
    assert once.metrics["throughput"].title == "throughput"
    assert often.metrics["throughput"].title == "throughput of the last loop"


def test_each_loop_takes_its_time() -> None:
    times = [unmeasured_s(expand(in_loops(loops), seed=1)) for loops in (1, 24)]
    assert times[1] - times[0] == pytest.approx(2 * 23 * 100)


def test_slices_have_no_loops() -> None:
    made = parsed(f'design = "slices"\n{LOOPS}loops = 2\n')
    assert "parameters.loops" in places_refused(made)


def test_other_workloads_have_no_loops() -> None:
    text = LOOPS.replace("linkbench", "sysbench").replace("nodes", "table_size")
    with pytest.raises(ValidationError, match="loops"):
        parsed(f"{text}loops = 2\n")
