"""Test observations as typed values: owners of threads, owners of work, missing observations."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import workloads
from millrace.analysis.explain.decode_observations import (
    OTHER_SESSIONS,
    loaders,
    observed,
    observed_trials,
    wait_factors,
)
from millrace.experiment.model import Experiment
from millrace.model.phases import MeasuredPhases
from millrace.model.run_spec import WorkloadDefinition
from millrace.model.sampled_threads import SampledThread, SchedEvents
from tests.support.experiment_files import SMALL, read_text
from tests.support.known import known
from tests.support.observed_trials import (
    DRIVEN,
    LOADED,
    A,
    B,
    Scene,
    Truth,
    attempt,
    explained_run,
    loading,
    seen,
)

TRUTH = Truth(waits={"lock": 10.0})


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: section for name, section in document.items() if name not in names}


def test_the_foreground_are_the_threads_that_worked() -> None:
    """Sessions of collectors and threads that wait for a connection serve nobody."""
    scene = Scene(clients=4, sessions=3, cached=2)
    found = scene.trial(TRUTH).observed
    assert found.us(known(known(found.foreground).cpu_s)) == pytest.approx(30.0)
    assert set(found.background) == {"log", "purge", OTHER_SESSIONS}
    assert found.states is not None
    assert found.states.n_threads == 4
    assert found.states.samples == 4 * 300
    assert found.states.counts["lock"] / found.states.samples == pytest.approx(
        10 / TRUTH.cycle, abs=1 / 300
    )


@pytest.mark.parametrize("with_clocks", [True, False])
def test_a_busier_session_in_the_background_is_not_the_client(*, with_clocks: bool) -> None:
    scene = Scene(clients=2)
    document = scene.document(TRUTH)
    first, second = (each for each in document["states"]["threads"] if each["kind"] == "connection")
    second["serves_client"] = True
    busy, idle = document["threads"]["threads"][:2]
    assert (busy["tid"], idle["tid"]) == (first["tid"], second["tid"])
    busy["cpu_s"], idle["cpu_s"] = 2.0, 1.0
    for state in first["states"]:
        state["count"] *= 2
    if not with_clocks:
        del document["threads"]
    found = seen(scene.attempt(TRUTH, document), 1)
    assert known(found.states).samples == sum(each["count"] for each in second["states"])
    if with_clocks:
        assert known(found.foreground).cpu_s == pytest.approx(1.0)


def test_without_clocks_the_samples_tell_who_worked() -> None:
    scene = Scene(clients=2, sessions=3, cached=1)
    document = without(scene.document(TRUTH), "threads")
    found = scene.trial(TRUTH, document=document).observed
    assert (found.process, found.foreground, found.background) == (None, None, {})
    assert known(found.states).counts["lock"] / known(found.states).samples == pytest.approx(
        10 / TRUTH.cycle, abs=1 / 300
    )


def test_locks_that_wait_for_the_log_are_its_flush() -> None:
    found = known(Scene(during_sync=1.0).trial(TRUTH).observed.states)
    assert found.counts["lock"] == 0
    assert found.counts["log_flush"] == round(300 * 10 / TRUTH.cycle)


def test_threads_of_a_pool_all_count_and_flush_nothing_by_waiting() -> None:
    scene = Scene(clients=8, during_sync=1.0, serving="pool")
    document = scene.document(TRUTH)
    document["threads"]["threads"] = document["threads"]["threads"][:3]
    made = replace(scene.attempt(TRUTH, document))
    instance = replace(made.instances[0], effective={"thread_handling": "pool-of-threads"})
    found = seen(replace(made, instances=(instance,)), 8)
    assert found.pooled
    assert found.states is not None
    assert found.states.n_threads == 3
    assert found.states.counts["log_flush"] == 0
    assert found.states.counts["lock"] > 0


def test_pool_is_unknown_when_no_thread_is_known() -> None:
    made = Scene(clients=8).attempt(TRUTH)
    instance = replace(made.instances[0], effective={"thread_handling": "pool-of-threads"})
    found = seen(replace(made, instances=(instance,)), 8)
    assert (found.foreground, found.states) == (None, None)
    assert [each.observer for each in found.missing] == ["threads"]


def test_fewer_threads_than_clients_are_not_taken_for_all() -> None:
    scene = Scene(clients=4)
    document = scene.document(TRUTH)
    del document["threads"]["threads"][0]
    found = scene.trial(TRUTH, document=document).observed
    assert (found.foreground, found.states) == (None, None)
    assert "only 3 were found" in found.missing[0].what
    document = scene.document(TRUTH)
    del document["states"]["threads"][0]
    found = scene.trial(TRUTH, document=document).observed
    assert found.foreground is not None
    assert found.states is None
    assert found.missing[0].observer == "states"


def test_a_section_that_began_late_is_counted_for_the_whole_window() -> None:
    document = Scene().document(TRUTH)
    document |= {
        "host": {"late_s": 0.6, "cpus": 2, "cpu": {"steal_s": 1.2}, "others": [{"pid": 7}]},
        "status": {"late_s": 0.3, "deltas": {"Questions": 9, "Bytes_sent": 18}},
        "waits": {
            "late_s": 1.5,
            "enabled": True,
            "events": [{"name": "w", "count": 1, "wait_s": 1.0}],
        },
        "digests": [{"text": "SELECT", "count": 10, "wait_s": 1.0}],
    }
    document["threads"]["late_s"] = 1.0
    found = Scene().trial(TRUTH, document=document).observed
    assert found.us(known(found.foreground).cpu_s or 0) == pytest.approx(30 * 3 / 2)
    assert known(found.host.cpu).steal_s == pytest.approx(1.5)
    assert found.host.cpus == 2
    assert known(found.grown)["Questions"] == pytest.approx(10)
    assert found.counted("bytes_sent") == pytest.approx(20)
    assert found.waits[0].wait_s == pytest.approx(2)
    assert found.digests[0].count == pytest.approx(20)


def test_millraces_own_sessions_serve_nobody() -> None:
    document = Scene().document(TRUTH)
    own = {**document["threads"]["threads"][0], "tid": 77, "kind": "observer", "cpu_s": 99.0}
    document["threads"]["threads"].append(own)
    found = Scene().trial(TRUTH, document=document).observed
    assert found.us(known(found.foreground).cpu_s or 0) == pytest.approx(30)
    assert set(found.background) == {"log", "purge", "observer"}


def test_the_window_need_not_be_the_clients() -> None:
    """Collectors observe 1 % less than the clients measured: rates stay the same."""
    document = Scene().document(TRUTH)
    shorter = {**document, "window_s": 3.0 * 0.99}
    for thread in shorter["threads"]["threads"]:
        thread["cpu_s"] *= 0.99
    found = Scene().trial(TRUTH, document=shorter).observed
    assert found.us(known(found.foreground).cpu_s or 0) == pytest.approx(30.0)


def test_loading_is_one_client_whose_operations_are_rows() -> None:
    found = seen(loading(100_000, 2.0, {"window_s": 2.0}, finish_s=0.5))
    assert (found.work.noun, found.work.loop, found.work.clients) == ("row", "load", 1)
    assert found.work.latency_s == pytest.approx(2.0 / 100_000)
    assert found.cycle_us == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("tables", "chosen", "expected"),
    [
        ([], {}, 1),
        ([{}], {"load_threads": 0}, 1),
        ([{"count": None}], {"load_threads": 8}, 1),
        ([{"count": "{tables}"}], {"tables": 1, "load_threads": 0}, 1),
        ([{"count": "{tables}"}], {"tables": 8, "load_threads": 0}, None),
        ([{"count": "{tables}"}], {"tables": 8, "load_threads": 4}, 4),
        ([{"count": "{tables}"}], {"load_threads": 4}, 4),
        ([{"count": 2}, {}], {"load_threads": 4}, 3),
        ([{}, {}], {}, None),
    ],
)
def test_a_table_is_loaded_by_one_connection(
    tables: list[dict[str, Any]], chosen: dict[str, Any], expected: int | None
) -> None:
    defined = {str(number): table for number, table in enumerate(tables)}
    workload = {**workloads.load("sysbench"), "tables": defined}
    assert loaders(WorkloadDefinition.model_validate(workload), chosen) == expected


@pytest.mark.parametrize("name", workloads.names())
@pytest.mark.parametrize("tables", [1, 4])
def test_an_experiment_accepts_the_advice_on_loaders_and_it_helps(
    name: str, tables: int, tmp_path: Path
) -> None:
    count = f"tables = {tables}" if "tables" in workloads.load(name)["parameters"] else ""
    asked = experiment_on(tmp_path, name, count)
    advice = advice_on_loaders(asked)
    if advice is None:
        return
    match = re.fullmatch(r"set (\w+) under \[parameters\] in the experiment", advice)
    assert match is not None, advice
    followed = experiment_on(tmp_path, name, f"{count}\n{match[1]} = 2")
    assert followed.parameters["load_threads"] == 2
    assert advice_on_loaders(followed) is None


def test_some_experiment_gets_the_advice_on_loaders(tmp_path: Path) -> None:
    assert advice_on_loaders(experiment_on(tmp_path, "sysbench", "tables = 4")) is not None
    assert advice_on_loaders(experiment_on(tmp_path, "load-data", "")) is None


def experiment_on(directory: Path, workload: str, parameters: str) -> Experiment:
    known = workloads.load(workload)["parameters"]
    required = [f"{name} = 1000" for name, each in known.items() if each.get("default") is None]
    text = SMALL.replace('"load-data"', f'"{workload}"')
    return read_text(directory, text.replace("rows = 1000", "\n".join([*required, parameters])))


def advice_on_loaders(experiment: Experiment) -> str | None:
    """Return the advice in the explanation of a load of this experiment.

    None where it is complete."""
    levels = {factor.name: factor.levels[0] for factor in experiment.factors}
    known = loaders(
        WorkloadDefinition.model_validate(experiment.workload), {**experiment.parameters, **levels}
    )
    found = observed(loading(1_000, 2.0, {"window_s": 2.0}), LOADED, clients=1, loaders=known)
    assert found is not None
    advice = [each.hint for each in found.missing if "how many connections" in each.what]
    return advice[0] if advice else None


def test_several_connections_share_the_rows() -> None:
    made = loading(100_000, 2.0, {"window_s": 2.0})
    found = known(observed(made, LOADED, clients=1, loaders=4))
    assert found.work.latency_s == pytest.approx(4 * 2.0 / 100_000)
    assert found.cycle_us == pytest.approx(80.0)
    unknown = known(observed(made, LOADED, clients=1, loaders=None))
    assert unknown.work.latency_s is None
    assert "how many connections" in unknown.missing[0].what


def test_a_session_that_ends_with_its_load_is_the_one_that_loaded() -> None:
    truth = Truth(cpu_user=6, cpu_system=2, runnable=1, wire=11, gap=0)
    document = Scene(rate_hz=1e5, sessions=2).document(truth)
    gone = document["threads"]["threads"][0]
    gone |= {"tid": 0, "name": "ended", "kind": "ended"}
    found = seen(loading(150_000, 3.0, document))
    assert found.us(known(found.foreground).cpu_s or 0) == pytest.approx(8)
    assert found.states is not None
    assert found.states.counts["running"] / found.states.samples == pytest.approx(9 / 20, abs=1e-4)
    driven = Scene(rate_hz=1e5, sessions=2).trial(truth, document=document).observed
    assert "ended" in driven.background


def test_several_sessions_that_end_with_their_load() -> None:
    truth = Truth(cpu_user=6, cpu_system=2, runnable=1, wire=11, gap=0)
    scene = Scene(clients=2, rate_hz=1e5, sessions=3)
    document = scene.document(truth)
    one, other, *rest = document["threads"]["threads"]
    gone = {**one, "tid": 0, "kind": "ended", "cpu_s": one["cpu_s"] + other["cpu_s"]}
    document["threads"]["threads"] = [gone, *rest]
    made = loading(2 * 150_000, 3.0, document)
    found = known(observed(made, LOADED, clients=1, loaders=2))
    assert found.us(known(found.foreground).cpu_s or 0) == pytest.approx(8, rel=1e-3)
    assert found.states is not None
    assert found.states.counts["running"] / found.states.samples == pytest.approx(9 / 20, abs=1e-4)
    document["states"]["threads"] = document["states"]["threads"][:1]
    fewer = known(observed(loading(2 * 150_000, 3.0, document), LOADED, clients=1, loaders=2))
    assert fewer.states is None


def test_all_appliers_of_a_replica_are_its_foreground() -> None:
    """Nobody says how many there are: a setting asks for some, and not each has work."""
    scene = Scene(clients=3)
    values = {
        "replicated_transactions": scene.operations(TRUTH),
        "apply_duration_s": scene.window_s,
    }
    applied = MeasuredPhases(None, ("apply",), (), of_replica=True)
    document = scene.document(TRUTH)
    found = known(observed(attempt(values, document), applied, clients=8))
    assert found.work.clients == 3
    assert found.work.latency_s == pytest.approx(TRUTH.cycle * 1e-6)
    assert found.us(known(found.foreground).cpu_s or 0) == pytest.approx(30.0)
    assert OTHER_SESSIONS not in found.background
    sampled = known(observed(attempt(values, without(document, "threads")), applied, clients=8))
    assert sampled.work.clients == 3
    document["threads"]["threads"][2]["cpu_s"] /= 100
    without_idle = known(observed(attempt(values, document), applied, clients=8))
    assert without_idle.work.clients == 2
    unseen = known(observed(attempt(values, {}), applied, clients=8))
    assert unseen.work.clients == 1


def test_latency_is_the_exact_mean_of_all_transactions() -> None:
    assert Scene().trial(TRUTH).observed.work.latency_s == pytest.approx(TRUTH.latency * 1e-6)


def test_what_measured_nothing_is_not_observed() -> None:
    assert observed(attempt({}, {}), DRIVEN, clients=1) is None
    assert observed(attempt({"transactions": 0.0, "rows": 5.0}, {}), DRIVEN, clients=1) is None
    assert observed(attempt({"rows": 5.0}, {}), LOADED, clients=1) is None


def test_phases_may_have_any_name() -> None:
    phases = MeasuredPhases("run", ("run",), ("fill",))
    made = attempt({"transactions": 100.0, "run_duration_s": 2.0}, {})
    found = known(observed(made, phases, clients=1))
    assert (found.work.noun, found.work.duration_s) == ("transaction", 2.0)
    phases = MeasuredPhases(None, ("fill", "flush"), ("fill",))
    made = attempt({"rows": 100.0, "fill_duration_s": 2.0, "flush_duration_s": 1.0}, {})
    found = known(observed(made, phases, clients=1))
    assert (found.work.noun, found.work.duration_s) == ("row", 3.0)


def test_a_trial_without_observations_still_has_its_work() -> None:
    found = seen(Scene().attempt(TRUTH, {}))
    assert found.work.operations > 0
    assert found.operations == found.work.operations
    assert (found.states, found.grown, found.profile, found.has_waits) == (None, None, None, False)


def test_one_null_makes_a_sum_unknown() -> None:
    document = Scene(clients=2).document(TRUTH)
    document["threads"]["threads"][0]["runnable_s"] = None
    found = Scene(clients=2).trial(TRUTH, document=document).observed
    assert known(found.foreground).runnable_s is None
    assert known(found.foreground).cpu_s is not None


def test_trials_are_of_one_purpose_and_finished() -> None:
    stored = explained_run(lambda _server, _block: (TRUTH, {}), blocks=3, profiled=2)
    failed = [replace(a, outcome="failed") if a.id == 1 else a for a in stored.attempts]
    stored = replace(stored, attempts=tuple(failed))
    trials = {t.levels["server"]: observed_trials(stored, t) for t in stored.treatments}
    assert sorted(len(found) for found in trials.values()) == [2, 3]
    assert set(trials) == {A, B}
    profiled = observed_trials(stored, stored.treatments[0], purpose="profile")
    assert [trial.block for trial in profiled] == [0, 1]


def thread(tid: int = 7, **seconds: float) -> SampledThread:
    unknown = dict.fromkeys(("syscall", "wchan", "target"))
    states = [
        {"class": name, "count": 10, "seconds": each, "during_sync": 0, **unknown}
        for name, each in seconds.items()
    ]
    return SampledThread.model_validate({"tid": tid, "kind": "connection", "states": states})


def wait(state: str, by: str, seconds: float, count: int = 1000) -> dict[str, Any]:
    return {"state": state, "woken_by": by, "count": count, "seconds": seconds}


def section(
    *waits: Mapping[str, Any], tid: int = 7, unknown_s: float = 0.0, windows: int = 10
) -> SchedEvents:
    """Return the section of ten windows of 10 ms."""
    blocked_s = math.fsum(wait["seconds"] for wait in waits)
    by_class = {"blocked_s": blocked_s, "unknown_s": unknown_s, "windows": windows}
    threads = [{"tid": tid, **by_class, "waits": list(waits)}]
    return SchedEvents.model_validate({"windows": 10, "seconds": 0.1, "threads": threads})


def test_a_class_is_made_as_long_as_the_events_say() -> None:
    sampled = [thread(lock=6.0, running=3.0, network=1.0)]
    by_class = section(wait("S", "own", 0.03), wait("S", "other", 0.02))
    assert wait_factors(sampled, by_class) == {
        "lock": pytest.approx(0.5), "network": pytest.approx(2.0), "running": pytest.approx(5 / 3)
    }  # fmt: skip
    # Windows without data are left out.
    found = wait_factors(sampled, section(wait("S", "own", 0.03), unknown_s=0.002))
    assert found["lock"] == pytest.approx(0.03 / 0.098 * 10 / 6)
    assert found["running"] == pytest.approx(0.068 / 0.098 * 10 / 3)


def test_running_is_what_the_events_tell_and_not_what_is_left() -> None:
    """Reads that samples see too rarely do not make it longer."""
    by_class = section(wait("S", "own", 0.03), wait("D", "kernel", 0.04))
    found = wait_factors([thread(lock=6.0, running=3.0, data_read=1.0)], by_class)
    assert found == {"lock": pytest.approx(0.5), "running": pytest.approx(1.0)}


def test_what_the_kernel_ended_is_as_it_was_sampled() -> None:
    by_class = section(wait("D", "kernel", 0.05), wait("D", "own", 0.05))
    assert wait_factors([thread(lock=6.0, running=4.0)], by_class) == {}


def test_sleep_that_the_kernel_ends_is_shared_out_as_it_was_sampled() -> None:
    by_class = section(wait("S", "own", 0.03), wait("S", "kernel", 0.01, count=9))
    found = wait_factors([thread(lock=6.0, running=4.0)], by_class)
    assert found["lock"] == pytest.approx(0.4 * 10 / 6)
    assert found["running"] == pytest.approx(0.6 * 10 / 4)
    found = wait_factors([thread(lock=6.0, sleep=2.0, running=2.0)], by_class)
    assert found["lock"] == pytest.approx(0.375 * 10 / 6)
    assert "sleep" not in found


@pytest.mark.parametrize(
    "by_class",
    [
        SchedEvents(),
        section(),
        section(wait("S", "own", 0.03, count=29)),
        section(wait("S", "own", 0.03, count=50)),  # 600 µs each
        section(wait("S", "own", 0.03), unknown_s=0.0031),
        section(wait("S", "own", 0.03), windows=2),
        section(wait("S", "own", 0.03), tid=8),
        section(wait("S", "other", 0.03)),  # never sampled
    ],
    ids=[
        "none", "no wait", "too few", "too long", "unknown", "few windows",
        "another thread", "never sampled",
    ],
)  # fmt: skip
def test_where_events_tell_too_little_samples_stay_as_they_are(by_class: SchedEvents) -> None:
    assert wait_factors([thread(lock=6.0, running=4.0)], by_class) == {}


def test_all_threads_are_like_those_that_were_listened_to() -> None:
    sampled = [thread(7, lock=6.0, running=4.0), thread(8, lock=2.0, running=8.0)]
    found = wait_factors(sampled, section(wait("S", "own", 0.02)))
    assert found["lock"] == pytest.approx(0.2 * 20 / 8)


@given(
    st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0, 0.04),
    st.floats(0, 0.04),
)  # fmt: skip
def test_what_threads_did_stays_the_whole(
    lock: float, network: float, running: float, own_s: float, other_s: float
) -> None:
    by_class = section(wait("S", "own", own_s), wait("S", "other", other_s))
    found = wait_factors([thread(lock=lock, network=network, running=running)], by_class)
    assert all(factor >= 0 for factor in found.values())
    seconds = {"lock": lock, "network": network, "running": running}
    after = math.fsum(found[name] * each for name, each in seconds.items())
    assert after == pytest.approx(math.fsum(seconds.values()))
