"""What speaks against an explanation: accounts that do not close, trials that were disturbed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from millrace.analysis.account import DifferenceLine, TrialAccount
from millrace.analysis.explanation import Explained, Explanation
from millrace.analysis.statement_account import StatementDifferences
from millrace.report.common.formatting import counted, whole_percent_text
from millrace.report.explanation.sentences import within
from millrace.report.explanation.tables import latencies_us, left_shares

NOT_SURE = "not sure: does not hold after correction for the number of rows looked at"
ONE_BLOCK = "?: of one block, which may be chance"

_MOST_ALONE, _MOST_TOGETHER = 0.10, 0.15  # of the latency may be unaccounted: with one client, more
_LEAST_US = 2.0
_LEAST_OF_OPERATION = 0.05  # of its time: accounts of smaller statements are not asked to close
_BEYOND_CHANCE = 2.0  # errors of counting
_PROCESSES = "other processes"


def doubts(explanation: Explanation) -> list[str]:
    """Why the answer may be wrong, a sentence each; none where nothing speaks against it."""
    return [
        *_unaccounted(explanation),
        *_unaccounted_statements(explanation),
        *_disturbed(explanation),
        *_stopped(explanation),
    ]


def _unaccounted(explanation: Explanation) -> Iterator[str]:
    found = explanation.differences
    if found is None:
        return
    for side, share in zip((explanation.a, explanation.b), left_shares(found), strict=True):
        account = side.account
        assert account is not None
        trials = [trial for trial in account.trials if trial.block in found.blocks]
        most = _most(side)
        us = found.unaccounted.a_us if side is explanation.a else found.unaccounted.b_us
        far = [text for each in trials if (text := _far(each, found.lines, most))]
        if abs(share) > most and abs(us) > _LEAST_US:
            blocks = f" ({'; '.join(far)})" if far and len(trials) > 1 else ""
            left = "unaccounted" if share > 0 else "counted twice"
            yield (
                f"{whole_percent_text(abs(share))} of the latency of {side.label} is {left}: do "
                f"not trust the parts{blocks}."
            )
        elif far:
            yield (
                f"In {'a block' if len(far) == 1 else f'{len(far)} blocks'} of {side.label} too "
                f"much is unaccounted to trust the parts: {'; '.join(far)}."
            )


def _far(trial: TrialAccount, lines: Sequence[DifferenceLine], most: float) -> str:
    """``block 2: −24 %``; empty where the account of the trial closes well enough."""
    left_us = trial.left([line.key for line in lines]).us
    share = left_us / trial.latency_us if trial.latency_us else 0.0
    if abs(share) <= most or abs(left_us) <= _LEAST_US:
        return ""
    return f"block {trial.block + 1}: {whole_percent_text(share)}"


def _most(side: Explained) -> float:
    """The share of a latency that may be unaccounted."""
    alone = side.account is not None and side.account.clients == 1
    return _MOST_ALONE if alone else _MOST_TOGETHER


def _unaccounted_statements(explanation: Explanation) -> Iterator[str]:
    """The statements that matter whose accounts do not close, a sentence for each side."""
    found = explanation.statement_differences
    for side in (explanation.a, explanation.b):
        is_a = side is explanation.a
        operation_us = math.fsum(each.a_us if is_a else each.b_us for each in found)
        open_ones = [
            told
            for each in found
            if (each.a_us if is_a else each.b_us) >= _LEAST_OF_OPERATION * operation_us
            if (told := _open(each, side, is_a=is_a))
        ]
        if open_ones:
            several = len(open_ones) > 1
            yield (
                f"The account{'s' if several else ''} of {', '.join(open_ones)} "
                f"{within(side, explanation.factor)} do{'' if several else 'es'} not close: do not "
                f"trust {'their' if several else 'its'} parts."
            )


def _open(each: StatementDifferences, side: Explained, *, is_a: bool) -> str:
    """``COMMIT (25 % unaccounted)``; empty where the account closes, or may but for chance."""
    left = each.account.unaccounted
    us = left.a_us if is_a else left.b_us
    whole_us = latencies_us(each.account)[0 if is_a else 1]
    share = us / whole_us if whole_us else 0.0
    errors = [
        trial.left(list(trial.parts)).error_us
        for account in side.statement_accounts
        if account.name == each.name
        for trial in account.trials
        if trial.block in each.account.blocks
    ]
    by_chance_us = _BEYOND_CHANCE * math.hypot(*errors) / len(errors) if errors else 0.0
    if abs(share) <= _most(side) or abs(us) <= max(_LEAST_US, by_chance_us):
        return ""
    kind = "unaccounted" if us > 0 else "counted twice"
    return f"{each.name} ({whole_percent_text(abs(share))} {kind})"


def _stopped(explanation: Explanation) -> Iterator[str]:
    """What intervals of one look are worth where what was seen decided when to stop."""
    if explanation.run.design.kind == "sequential":
        yield (
            "The number of blocks was decided by what they showed: the verdict allows for that, "
            "the intervals here do not, and are somewhat too narrow."
        )


def _disturbed(explanation: Explanation) -> Iterator[str]:
    """``2 of 3 blocks of A and 1 of 3 of B were disturbed by other processes.``"""
    measured = [each for each in explanation.disturbances if not each.profiled]
    if not measured:
        return
    told = []
    sides: Sequence[tuple[str, Explained]] = (("A", explanation.a), ("B", explanation.b))
    for name, side in sides:
        blocks = {each.block for each in measured if each.side == name}
        if blocks:
            told.append(f"{len(blocks)} of {counted(len(side.trials), 'block')} of {side.label}")
    ours = all(each.clause.startswith(_PROCESSES) for each in measured)
    by = f"by {_PROCESSES}" if ours else "by what else the host did"
    one = len(told) == 1 and told[0].startswith("1 ")
    yield f"{' and '.join(told)} {'was' if one else 'were'} disturbed {by}."
