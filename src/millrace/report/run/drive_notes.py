"""Notes on figures of driven clients: the work they did, and the state of host and server."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from millrace.analysis.compare.conditions import DriveConditions
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.analysis.steady.policy import reasons
from millrace.model.instance_facts import CpuIdleFact
from millrace.quantities import counted
from millrace.report.common.formatting import percent_text, seconds_text

ERRORS_LIMIT = 0.001  # of the transactions; fewer change no figure that is shown
BUSY_CLIENT = 0.5  # of the host: from there on, the server may have waited for it
SHOWN = 6  # labels in one line, and treatments that were not steady
_UNEQUAL = "the work was unequal, not shown to be equal, or failed mostly"


def warnings(analysis: RunAnalysis) -> list[str]:
    """List what makes figures of driven clients less trustworthy, a sentence each."""
    return [
        *_about_refused(analysis, lambda c: c.unequal, _UNEQUAL),
        *steady_warnings(analysis),
        *_about_errors(analysis),
        *_about_maintenance(analysis),
        *_about_loops(analysis),
        *_about_open_loop(analysis),
        *_about_settling(analysis),
        *_about_loading(analysis),
        *_about_some(
            analysis,
            lambda each: each.unsteady,
            "{} began to measure before their throughput was steady",
        ),
        *_about_some(
            analysis,
            lambda each: each.reads.get("between", 0),
            "reads in {} were neither cached nor bound by I/O, so their figures depend on the size "
            "of the memory",
            lambda each: each.between_why,
        ),
        *_about_busy_client(analysis),
    ]


def conditions(analysis: RunAnalysis) -> list[str]:
    """List the conditions under which clients were driven, a sentence each."""
    return [
        *_about_number_of_loops(analysis),
        *steady_conditions(analysis),
        *_about_memory(analysis),
        *_about_client(analysis),
        *_about_sleeping_cpus(analysis),
        *_about_snapshots(analysis),
    ]


def _about_refused(
    analysis: RunAnalysis, unfit: Callable[[Comparison], str | None], why: str
) -> Iterator[str]:
    refused = sum(bool(unfit(c)) and c.verdict == "inconclusive" for c in analysis.comparisons())
    if refused:
        yield f"{counted(refused, 'comparison is', 'comparisons are')} inconclusive: {why}"


def steady_warnings(analysis: RunAnalysis) -> Iterator[str]:
    """Yield refused verdicts, and trials that were not steady, a sentence each."""
    yield from _about_refused(analysis, lambda c: c.unsteady, "too many trials were not steady")
    found = [(t, unsteady) for t in analysis.treatments if (unsteady := t.unsteady_trials)]
    for treatment, unsteady in found[:SHOWN]:
        judged = sum(trial.is_judged for trial in treatment.steadiness)
        were = "was" if len(unsteady) == 1 else "were"
        of = f"{len(unsteady)} of {counted(judged, 'trial')} of {treatment.label}"
        yield f"{of} {were} not steady: {'; '.join(reasons(unsteady))}"
    if len(found) > SHOWN:
        more = counted(len(found) - SHOWN, "more treatment")
        yield f"{more} had trials that were not steady"


def steady_conditions(analysis: RunAnalysis) -> Iterator[str]:
    """Yield facts about the other trials, a sentence each."""
    trials = [trial for treatment in analysis.treatments for trial in treatment.steadiness]
    states = Counter(trial.state for trial in trials)
    total = counted(len(trials), "trial")
    if any(t.driven for t in analysis.treatments) and states["does not apply"] == len(trials):
        yield "a steady state is not asked for: all trials carried out as many transactions"
    if states["steady"] and not states["unsteady"]:
        yield f"{states['steady']} of {total} were steady while they were measured"
    if short := states["too short to tell"]:
        were, they = ("was", "it was") if short == 1 else ("were", "they were")
        yield f"{short} of {total} {were} too short to tell whether {they} steady"


def _about_errors(analysis: RunAnalysis) -> Iterator[str]:
    failed = []
    for treatment in analysis.treatments:
        tried = sum(work.tried for work in treatment.work)
        errors = sum(work.errors for work in treatment.work)
        if tried and errors > ERRORS_LIMIT * tried:
            codes = Counter[str]()
            for work in treatment.work:
                codes.update(dict(work.error_codes))
            most = [f"{code} {counted(count, 'time')}" for code, count in codes.most_common(3)]
            which = f" ({', '.join(most)})" if most else ""
            failed.append(f"{treatment.label} {percent_text(errors / tried)}{which}")
    if failed:
        yield f"transactions ended in an error: {_listed(failed)}"


def _about_maintenance(analysis: RunAnalysis) -> Iterator[str]:
    unknown = {
        treatment.label: treatment.maintenance.removal_unknown
        for treatment in analysis.treatments
        if treatment.maintenance is not None and treatment.maintenance.removal_unknown
    }
    for why in dict.fromkeys(unknown.values()):
        labels = [label for label, each in unknown.items() if each == why]
        yield f"the time of removing files is not known: {_listed(labels)}: {why}"


def _about_number_of_loops(analysis: RunAnalysis) -> Iterator[str]:
    most = max((len(treatment.loops) for treatment in analysis.treatments), default=0)
    if most > 1:
        yield (
            f"each trial drove its clients in {most} loops on tables that aged; what is compared "
            "is the last loop, and under `throughput of all loops` their mean"
        )


def _about_loops(analysis: RunAnalysis) -> Iterator[str]:
    """Yield which loops began with a server that had just started, the last one first."""
    cold = {
        treatment.label: [loop for loop in treatment.loops if loop.restarted_cold]
        for treatment in analysis.treatments
    }
    last = [
        treatment.label
        for treatment in analysis.treatments
        if treatment.loops and treatment.loops[-1].restarted_cold
    ]
    if last:
        yield (
            f"the last loop, which is compared, was restarted cold: {_listed(last)}; "
            "`throughput of all loops` depends less on that"
        )
    found = [
        f"{label} loop {', '.join(str(loop.loop) for loop in loops)}"
        for label, loops in cold.items()
        if loops
    ]
    if found:
        yield (
            f"loops were restarted cold, after millrace had been stopped or killed: "
            f"{_listed(found)}"
        )


def _about_open_loop(analysis: RunAnalysis) -> Iterator[str]:
    behind = []
    for treatment in analysis.treatments:
        scheduled = sum(work.scheduled for work in treatment.work)
        late = sum(work.late for work in treatment.work)
        skipped = sum(work.skipped for work in treatment.work)
        if scheduled and late + skipped > ERRORS_LIMIT * scheduled:
            shares = [percent_text(late / scheduled), percent_text(skipped / scheduled)]
            behind.append(f"{treatment.label} {shares[0]} late, {shares[1]} skipped")
    if behind:
        yield f"not all of the schedule was kept: {_listed(behind)}"


def _about_settling(analysis: RunAnalysis) -> Iterator[str]:
    driven = _driven(analysis)
    if unsettled := sum(each.unsettled for each in driven):
        limit = max(each.longest_settle_s or 0.0 for each in driven if each.unsettled)
        yield (
            f"{unsettled} of {_trials(driven)} began to measure before the server had written back "
            f"what was left to write, after waiting {seconds_text(limit)} s"
            f"{_first(each.unsettled_why for each in driven)}"
        )


def _about_loading(analysis: RunAnalysis) -> Iterator[str]:
    """Warn of tables that were not loaded as asked, and so are laid out differently on disk."""
    others: dict[str, list[str]] = {}
    for treatment in analysis.treatments:
        for instance in treatment.instances:
            reason, method = instance.facts.load_method_reason, instance.facts.load_method
            if reason:
                others.setdefault(f"by {method}, because {reason}", []).append(treatment.label)
    for how, labels in others.items():
        yield f"tables were loaded {how}: {_listed(labels)}"


def _about_busy_client(analysis: RunAnalysis) -> Iterator[str]:
    waiting = [t for t in analysis.treatments if t.driven is not None and not _polled(t)]
    shares = {each.label: each.driven and each.driven.client_share for each in waiting}
    busy = {label: share for label, share in shares.items() if share and share > BUSY_CLIENT}
    if busy:
        listed = _listed(f"{label} {percent_text(share)}" for label, share in busy.items())
        yield f"the load generator took most of the host’s CPUs from the server: {listed}"


def _about_memory(analysis: RunAnalysis) -> Iterator[str]:
    missed = _known(analysis, lambda driven: driven.missed)
    if not missed:
        return
    most = max(missed)
    if not most or {verdict for each in _driven(analysis) for verdict in each.reads} == {"cached"}:
        rest = f" but {most * 100:.2g} %" if most else ""
        yield f"the tables were in memory: the buffer pool served all page reads{rest}"
    else:
        shares = _range(missed, lambda share: f"{share * 100:.3g} %")
        io = "I/O takes part in the figures"
        yield f"the buffer pool could not serve {shares} of page reads: {io}"


def _about_client(analysis: RunAnalysis) -> Iterator[str]:
    shares = _known(analysis, lambda driven: driven.client_share)
    if shares:
        line = f"the load generator used {_range(shares, percent_text)} of the host’s CPU time"
        if any(map(_polled, analysis.treatments)):
            line += "; of clients that polled, this and their CPU time are waiting too"
        yield line


def _polled(treatment: TreatmentAnalysis) -> bool:
    """Return whether its clients had CPUs of their own and asked for answers all the time."""
    return any(
        each.facts.cpu_idle is not None and each.facts.cpu_idle.polled
        for each in treatment.instances
    )


def _about_sleeping_cpus(analysis: RunAnalysis) -> list[str]:
    facts = [next((i.facts.cpu_idle for i in t.instances), None) for t in analysis.treatments]
    ways = Counter(_wakeup_text(fact) for fact in facts if fact is not None)
    if len(ways) == 1:
        return list(ways)
    total = counted(len(analysis.treatments), "treatment")
    return [f"in {number} of {total}, {way}" for way, number in ways.items()]


def _wakeup_text(fact: CpuIdleFact) -> str:
    text = "idle CPUs were kept awake" if fact.kept_awake_by else "idle CPUs could sleep"
    if fact.shared_cpu is not None:
        shared = f"CPU {fact.shared_cpu} was shared by the client and the server's thread for it"
        return f"{text}, and {shared} ({fact.reason})"
    if fact.polled is not None:  # else tables were loaded
        text += " and clients polled" if fact.polled else " and clients did not poll"
    if fact.on_cpus:
        text += f" on CPU {', '.join(map(str, fact.on_cpus))}"
    if fact.server_cpus:
        cpus = ", ".join(map(str, fact.server_cpus))
        text += f", and the servers’ threads for them were pinned to CPUs {cpus}"
    return f"{text} ({fact.reason})"


def _about_snapshots(analysis: RunAnalysis) -> Iterator[str]:
    if saved := _known(analysis, lambda driven: driven.snapshots_saved_s):
        yield f"snapshots saved {seconds_text(sum(saved))} s of loading"
    yield from _about_some(
        analysis,
        lambda each: each.not_kept,
        "{} loaded their tables themselves, with no snapshot",
        lambda each: each.not_kept_why,
    )


def _about_some(
    analysis: RunAnalysis,
    count: Callable[[DriveConditions], int],
    text: str,
    why: Callable[[DriveConditions], str | None] = lambda _: None,
) -> Iterator[str]:
    """Yield the text of ``3 of 6 trials`` and the first reason, where any trial counts."""
    driven = _driven(analysis)
    if number := sum(map(count, driven)):
        yield f"{text.format(f'{number} of {_trials(driven)}')}{_first(map(why, driven))}"


def _driven(analysis: RunAnalysis) -> list[DriveConditions]:
    return [t.driven for t in analysis.treatments if t.driven is not None]


def _trials(driven: Iterable[DriveConditions]) -> str:
    return counted(sum(each.trials for each in driven), "trial")


def _first(reasons: Iterable[str | None]) -> str:
    return next((f": {reason}" for reason in reasons if reason), "")


def _known(analysis: RunAnalysis, figure: Callable[[DriveConditions], float | None]) -> list[float]:
    return [value for each in _driven(analysis) if (value := figure(each)) is not None]


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def _listed(texts: Iterable[str]) -> str:
    several = list(texts)
    more = f" and {len(several) - SHOWN} more" if len(several) > SHOWN else ""
    return f"{', '.join(several[:SHOWN])}{more}"
