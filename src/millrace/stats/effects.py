"""Model how a ratio depends on the factors of a matrix of comparisons.

The matrix is, for example, workloads x clients x settings. The model has a mean, an effect of each
level of each factor, and one of each pair of levels of two factors, which sum to 0 over the levels
(Scheffé, *The Analysis of Variance*, 1959, ch. 4). They are fitted by least squares, weighted by
the comparisons' numbers of blocks and not by their errors: a comparison whose few blocks agree by
chance underestimates its error and would get too much weight. Each comparison has its own error,
since workloads are not equally noisy; the degrees of freedom are combined by Satterthwaite's
formula (Biometrics Bulletin 2, 1946).

The test for any effect of a factor or a pair is the ANOVA-type statistic of Brunner, Dette and Munk
("Box-Type Approximations in Nonparametric Factorial Designs", JASA 92, 1997), which allows for
unequal variances. Among all terms the procedure of Benjamini and Hochberg (JRSS B 57, 1995)
controls the false discovery rate; within a term, levels are tested with Holm's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats import sequential
from millrace.stats.multiple_tests import holm
from millrace.stats.ratio import RatioEstimate, from_log

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """One comparison of the matrix: its levels, and the mean log-ratio of its blocks."""

    levels: tuple[str, ...]
    log_ratio: float
    standard_error: float  # of the mean log-ratio
    blocks: int  # number of blocks


@dataclass(frozen=True)
class Effect:
    """A ratio with its interval, and the two-sided p-value for a ratio of 1."""

    ratio: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class AtLevels:
    """The effect at one combination of a term's levels.

    ``here`` is the ratio candidate / base at these levels, averaged over those of the other
    factors. ``apart`` is the part specific to them: the difference from the rest of the model (of a
    factor: the mean of its levels; of a pair: each of its levels alone). ``adjusted_p`` is that of
    ``apart`` among the levels of its term; ``seen`` is whether ``here`` differs from 1, with the
    same correction.
    """

    levels: tuple[str, ...]
    here: Effect
    apart: Effect
    adjusted_p: float
    seen: bool


@dataclass(frozen=True)
class Term:
    """A factor, or a pair of factors, on which the ratio may depend.

    ``adjusted_p`` is corrected for the number of terms.
    """

    factors: tuple[str, ...]
    p_value: float
    adjusted_p: float
    matters: bool
    at: tuple[AtLevels, ...]


@dataclass(frozen=True)
class FactorEffects:
    """The result of the model.

    ``overall`` is the mean ratio over all levels with equal weights. ``unexplained_p`` is small
    where factors and pairs do not explain the matrix; None where they can explain any matrix.
    """

    overall: Effect
    terms: tuple[Term, ...]
    unexplained_p: float | None


def cell_of(levels: tuple[str, ...], estimate: RatioEstimate, *, alpha: float) -> Cell:
    """Return the comparison with this estimate, for a model with this ``alpha``.

    Where its interval is valid for any number of looks, the error is scaled by the ratio of that
    interval's width to Student's. Otherwise comparisons stopped at a large value would seem to
    differ: of 300 matrices of six with one ratio, 6 to 13 % had a term that mattered, and now 0.3 %
    at most (simulated as in ``tests/unit/analysis/compare/test_effects.py``, for three ratios).

    Raises ValueError for an estimate without a spread.
    """
    if not estimate.log_sd:
        raise ValueError("the blocks have no spread, so their uncertainty is unknown")
    error = estimate.log_sd / math.sqrt(estimate.n_pairs)
    if estimate.looks == "any":
        wide = sequential.critical_t(estimate.n_pairs, alpha, estimate.borrowed)
        error *= wide / float(scipy.special.stdtrit(estimate.n_pairs - 1, 1 - alpha / 2))
    return Cell(levels, math.log(estimate.ratio), error, estimate.n_pairs)


def factor_effects(
    factors: Sequence[str], cells: Sequence[Cell], *, alpha: float = 0.05
) -> FactorEffects:
    """Model the ratios of ``cells`` by ``factors``.

    Intervals have confidence 1 - ``alpha`` each, and the false discovery rate among the terms that
    matter is ``alpha``.

    Factors of one level are not terms. A pair of factors is a term where all combinations of its
    levels are present and the cells suffice to estimate its effects separately; several cells of
    the same levels count as repetitions. Cells are assumed independent: candidates compared with
    the same trials of a base are not, and need a model each.

    Raises ValueError for cells without a level for each factor, with less than 2 blocks or an error
    that is not positive; and where levels occur only together, so that their effects cannot be
    separated.
    """
    _check(factors, cells)
    model = _model(cells, len(factors))
    values = np.asarray([cell.log_ratio for cell in cells])
    blocks = np.asarray([cell.blocks for cell in cells])
    variances = np.asarray([cell.standard_error**2 for cell in cells])
    fit = _Fit(values, variances, blocks - 1, alpha)
    columns = np.hstack([block.columns for block in model])
    root = np.sqrt(blocks)[:, None]
    coefficients = np.linalg.pinv(columns * root) * root.T
    terms, start, mean = [], 1, coefficients[:1]
    for block in model[1:]:
        end = start + block.columns.shape[1]
        terms.append((block, block.at_levels @ coefficients[start:end]))
        start = end
    p_values = [fit.anova(own) for _, own in terms]
    adjusted = np.asarray(scipy.stats.false_discovery_control(p_values) if terms else [])
    own_of = {block.factors: own for block, own in terms}
    left = np.eye(len(cells)) - columns @ coefficients
    return FactorEffects(
        overall=fit.effect(mean[0]),
        terms=tuple(
            Term(
                factors=tuple(factors[number] for number in block.factors),
                p_value=p_value,
                adjusted_p=float(adjusted_p),
                matters=bool(adjusted_p <= alpha),
                at=_at_levels(block, _here(block, mean[0], own_of), own, fit),
            )
            for (block, own), p_value, adjusted_p in zip(terms, p_values, adjusted, strict=True)
        ),
        unexplained_p=fit.anova(left) if columns.shape[1] < len(cells) else None,
    )


def _check(factors: Sequence[str], cells: Sequence[Cell]) -> None:
    if not cells:
        raise ValueError("at least one comparison is needed")
    for cell in cells:
        if len(cell.levels) != len(factors):
            raise ValueError(f"{len(cell.levels)} levels for {len(factors)} factors")
        if cell.blocks < 2:
            raise ValueError("a comparison of one block has an unknown uncertainty")
        if not (math.isfinite(cell.log_ratio) and 0 < cell.standard_error < math.inf):
            raise ValueError("a comparison needs a finite ratio and a positive standard error")


@dataclass(frozen=True)
class _Block:
    """A term: its columns in the model, shape (cells, parameters).

    ``at_levels`` are the parameters' coefficients at each combination of levels, shape
    (combinations, parameters).
    """

    factors: tuple[int, ...]
    combinations: tuple[tuple[str, ...], ...]
    columns: Floats
    at_levels: Floats


def _model(cells: Sequence[Cell], n_factors: int) -> list[_Block]:
    """Return the terms: the mean, the factors, and the pairs that can be estimated after them."""
    names = [tuple(dict.fromkeys(cell.levels[f] for cell in cells)) for f in range(n_factors)]
    varied = [f for f in range(n_factors) if len(names[f]) > 1]
    blocks = [_Block((), ((),), np.ones((len(cells), 1)), np.ones((1, 1)))]
    blocks += [_block((factor,), names, cells) for factor in varied]
    if _rank(blocks) < sum(block.columns.shape[1] for block in blocks):
        raise ValueError("the factors are confounded: some levels occur only together")
    for pair in itertools.combinations(varied, 2):
        block = _block(pair, names, cells)
        there = {tuple(cell.levels[f] for f in pair) for cell in cells}
        whole = there == set(block.combinations)
        if whole and _rank([*blocks, block]) == _rank(blocks) + block.columns.shape[1]:
            blocks.append(block)
    return blocks


def _rank(blocks: Sequence[_Block]) -> int:
    return int(np.linalg.matrix_rank(np.hstack([block.columns for block in blocks])))


def _block(
    factors: tuple[int, ...], names: Sequence[tuple[str, ...]], cells: Sequence[Cell]
) -> _Block:
    combinations = tuple(itertools.product(*(names[f] for f in factors)))
    at_levels: Floats = np.ones((1, 1))
    for factor in factors:  # a parameter for each level but the last, which is minus their sum
        n_free = len(names[factor]) - 1
        contrasts = np.vstack([np.eye(n_free), -np.ones((1, n_free))])
        at_levels = np.asarray(np.kron(at_levels, contrasts), np.float64)
    row = {combination: number for number, combination in enumerate(combinations)}
    rows = [row[tuple(cell.levels[f] for f in factors)] for cell in cells]
    return _Block(factors, combinations, at_levels[rows], at_levels)


def _here(block: _Block, mean: Floats, own_of: dict[tuple[int, ...], Floats]) -> Floats:
    """Return the cells' weights in each combination's ratio: of the mean and all of its terms."""
    here = mean + own_of[block.factors]
    if len(block.factors) == 2:
        first, second = (own_of[(factor,)] for factor in block.factors)
        here = here + np.repeat(first, len(second), axis=0) + np.tile(second, (len(first), 1))
    return here


def _at_levels(block: _Block, here: Floats, own: Floats, fit: _Fit) -> tuple[AtLevels, ...]:
    at, apart = ([fit.effect(each) for each in weights] for weights in (here, own))
    of_here, of_apart = (holm([each.p_value for each in effects]) for effects in (at, apart))
    return tuple(
        AtLevels(levels, at[i], apart[i], of_apart[i], seen=of_here[i] <= fit.alpha)
        for i, levels in enumerate(block.combinations)
    )


@dataclass(frozen=True)
class _Fit:
    """The cells' values, their variances, and their degrees of freedom, shape (cells,)."""

    values: Floats
    variances: Floats
    freedom: NDArray[np.int64]
    alpha: float

    def effect(self, weights: Floats) -> Effect:
        """Return a sum of the cells' values with ``weights``, shape (cells,), as a ratio."""
        centre = float(weights @ self.values)
        parts = weights**2 * self.variances
        error = math.sqrt(parts.sum())
        freedom = float(parts.sum() ** 2 / (parts**2 / self.freedom).sum())
        reach = float(scipy.special.stdtrit(freedom, 1 - self.alpha / 2)) * error
        return Effect(
            ratio=from_log(centre),
            low=from_log(centre - reach),
            high=from_log(centre + reach),
            p_value=2 * float(scipy.special.stdtr(freedom, -abs(centre) / error)),
        )

    def anova(self, weights: Floats) -> float:
        """Return the p-value for sums that are all 0; ``weights`` has shape (sums, cells)."""
        form = weights.T @ weights
        spread = form * self.variances
        trace = float(np.trace(spread))
        # As a sum of squares it is not negative, not even by rounding.
        statistic = float(np.sum((weights @ self.values) ** 2)) / trace
        numerator = trace**2 / float(np.trace(spread @ spread))
        denominator = trace**2 / float((np.diag(spread) ** 2 / self.freedom).sum())
        return float(scipy.special.fdtrc(numerator, denominator, statistic))
