"""What speaks against an explanation: accounts that do not close, trials that were disturbed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millrace.analysis.account import DifferenceLine, TrialAccount
from millrace.analysis.explanation import Explained, Explanation
from millrace.report.explain_tables import left_shares
from millrace.report.formatting import counted, whole_percent_text

NOT_SURE = "not sure: does not hold after correction for the number of rows looked at"
ONE_BLOCK = "?: of one block, which may be chance"

_MOST_ALONE, _MOST_TOGETHER = 0.10, 0.15  # of the latency may be unaccounted: with one client, more
_LEAST_US = 2.0
_PROCESSES = "other processes"


def doubts(explanation: Explanation) -> list[str]:
    """Why the answer may be wrong, a sentence each; none where nothing speaks against it."""
    return [*_unaccounted(explanation), *_disturbed(explanation)]


def _unaccounted(explanation: Explanation) -> Iterator[str]:
    found = explanation.differences
    if found is None:
        return
    for side, share in zip((explanation.a, explanation.b), left_shares(found), strict=True):
        account = side.account
        assert account is not None
        trials = [trial for trial in account.trials if trial.block in found.blocks]
        most = _MOST_ALONE if account.clients == 1 else _MOST_TOGETHER
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
