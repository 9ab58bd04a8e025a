"""Test the JSON documents of workers: round trips, and lines that are damaged or hostile."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.host.cpuset import CpuPartition
from millrace.loadgen.datasets import DataChecksum
from millrace.model.events import IntervalEnded, StepBegan
from millrace.model.instance_facts import InstanceFacts
from millrace.model.servers import BuildFacts, FittedOptions, LeftOut, Option
from millrace.store.records import (
    AttemptResult,
    HistogramRecord,
    InstanceRecord,
    MeasurementRecord,
    ServerRecord,
    StepRecord,
)
from millrace.tls import MODES, Tls
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.trial_document import (
    EndMessage,
    EventMessage,
    InvalidDocument,
    ResultMessage,
    ServerDocument,
    TrialDocument,
    WaitMessage,
    read_message,
    read_trial,
    write_line,
)
from tests.unit.workloads.small import driving

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
counts = st.integers(0, 2**53)
numbers = st.floats(0, 1e15)
maybe = st.none() | texts
cpus = st.lists(st.integers(0, 500), max_size=3).map(tuple)
levels = st.booleans() | counts | texts | numbers
option = st.builds(Option, names, maybe, st.booleans(), names)
options = st.builds(
    FittedOptions,
    names,
    st.lists(option, max_size=2).map(tuple),
    st.lists(st.builds(LeftOut, option, texts), max_size=1).map(tuple),
)
server = st.builds(
    ServerDocument,
    role=names,
    name=names,
    build=maybe,
    options=options,
    slowdown=maybe,
    tls=st.none() | st.builds(Tls, st.sampled_from(MODES), st.none() | st.just(Path("/ca.pem"))),
)
settings = st.builds(
    CpuIdleSettings,
    st.booleans(),
    st.booleans(),
    st.none() | cpus,
    st.none() | st.integers(0, 500),
    texts,
    st.none() | numbers,
    st.none() | numbers,
)
trial = st.builds(
    TrialDocument,
    name=names,
    cpu_partition=st.none() | st.builds(CpuPartition, st.integers(0, 1), cpus),
    servers=st.lists(server, min_size=1, max_size=2).map(tuple),
    definition=st.just(driving()),
    chosen=st.dictionaries(names, levels, max_size=3),
    expected=st.none() | st.builds(DataChecksum, counts, counts, counts),
    cpu_idle=st.none() | settings,
    collectors=st.lists(names, max_size=2).map(tuple),
    stops_cleanly=st.booleans(),
)
facts = st.builds(
    InstanceFacts, residency=maybe, limits=st.lists(texts, max_size=2).map(tuple), other=levels
)
instance = st.builds(
    InstanceRecord,
    names,
    st.builds(
        ServerRecord,
        names,
        names,
        names,
        texts,
        st.builds(BuildFacts, attached=st.booleans(), source=maybe, other=levels),
    ),
    names,
    st.just(()),
    st.dictionaries(names, texts, max_size=2),
    facts,
)
measurement = st.builds(MeasurementRecord, names, numbers, names)
result = st.builds(
    AttemptResult,
    st.sampled_from(["finished", "failed", "interrupted"]),
    st.lists(
        st.builds(StepRecord, counts, names, numbers, numbers, st.just("finished")), max_size=2
    ).map(tuple),
    st.lists(instance, max_size=2).map(tuple),
    st.lists(measurement, max_size=2).map(tuple),
    maybe,
    maybe,
    maybe,
    st.lists(st.tuples(names, names, st.binary(max_size=8)), max_size=2).map(tuple),
    st.lists(
        st.builds(
            HistogramRecord, names, st.just("statement"), names, st.just("service"), texts, counts,
            numbers,
        ),
        max_size=1,
    ).map(tuple),
    st.dictionaries(names, st.dictionaries(names, st.lists(levels, max_size=2)), max_size=2),
    st.booleans(),
)  # fmt: skip
message = st.one_of(
    st.builds(ResultMessage, kind=st.just("result"), result=result),
    st.builds(WaitMessage, kind=st.just("wait"), point=names),
    st.builds(EndMessage, kind=st.sampled_from(["interrupted", "invalid", "defect"]), text=texts),
    st.builds(
        EventMessage,
        kind=st.just("event"),
        event=st.builds(StepBegan, name=names)
        | st.builds(IntervalEnded, phase=names, t_s=numbers, rows=counts, kind=maybe),
    ),
)


@given(trial)
def test_a_trial_is_read_as_it_was_written(document: TrialDocument) -> None:
    assert read_trial(write_line(document)) == document


@given(message)
def test_a_message_is_read_as_it_was_written(document: Any) -> None:
    assert read_message(write_line(document)) == document


@given(trial, st.data())
def test_a_truncated_trial_is_no_trial(document: TrialDocument, data: st.DataObject) -> None:
    line = write_line(document)
    with pytest.raises(InvalidDocument, match="truncated"):
        read_trial(line[: data.draw(st.integers(0, len(line) - 1))])


@given(trial, st.data(), st.binary(min_size=1, max_size=4))
def test_damage_is_refused_or_harmless(
    document: TrialDocument, data: st.DataObject, damage: bytes
) -> None:
    line = write_line(document)[:-1]
    at = data.draw(st.integers(0, len(line)))
    changed = line[:at] + damage + line[at + len(damage) :] + b"\n"
    with suppress(InvalidDocument):
        assert isinstance(read_trial(changed), TrialDocument)
    with suppress(InvalidDocument):
        read_message(changed)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\n", "trial"),
        (b"[]\n", "not a JSON object"),
        (b'{"cpu_partition": null, "name": "a"}\n', "servers"),
        (b'{"cpu_partition": null, "name": "a", "path": "/"}\n', "servers|path"),
        (b'{"cpu_partition": null, "name": "a", "servers": []}\n', "servers"),
        (b'{"cpu_partition": null, "name": "a", "servers": [{"name": "b"}]}\n', r"servers\.0"),
        (b"[" * 1_000_000 + b"\n", "nested|values"),
        (b'{"a": NaN}\n', "NaN"),
        (b"\xff\n", "UTF-8"),
    ],
)
def test_an_error_names_the_problem(line: bytes, said: str) -> None:
    with pytest.raises(InvalidDocument, match=said):
        read_trial(line)
