"""Profiles of trials, and the CPU time of an operation that their samples share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from millrace.analysis.call_tree import Path, path_of
from millrace.analysis.efficiency import server_cpu_s
from millrace.analysis.observed import ObservedTrial, Profile


@dataclass(frozen=True)
class Profiled:
    """One trial's stacks, and the CPU time in µs per operation that they share."""

    profile: Profile
    cpu_us: float

    @property
    def user_only(self) -> bool:
        return self.profile.with_kernel is False

    @property
    def unit_us(self) -> float:
        """What a sample stands for."""
        return self.cpu_us / self.profile.samples

    @cached_property
    def stacks(self) -> list[tuple[Path, int]]:
        return [(path_of(stack), count) for stack, count in self.profile.stacks.items()]

    def at(self, cpu_us: float) -> Profiled:
        """The same shares of another CPU time."""
        return Profiled(self.profile, cpu_us)


def profiled(trial: ObservedTrial) -> Profiled | None:
    """A trial's profile with its own CPU time."""
    profile = trial.observed.profile
    if profile is None:
        return None
    cpu_s = server_cpu_s(trial, user_only=profile.with_kernel is False)
    return None if cpu_s is None else Profiled(profile, trial.observed.us(cpu_s))


def of_treatment(
    trials: Sequence[ObservedTrial], measured: Sequence[ObservedTrial]
) -> list[Profiled]:
    """Its profiles, of the mean CPU time of the trials that were measured, where any was."""
    found = [each for trial in trials if (each := profiled(trial)) is not None]
    if not found or len({each.user_only for each in found}) != 1:
        return []
    told = cpu_by_block(measured, user_only=found[0].user_only).values()
    return [each.at(sum(told) / len(told)) for each in found] if told else found


def cpu_by_block(trials: Sequence[ObservedTrial], *, user_only: bool) -> dict[int, float]:
    """CPU time of an operation of each trial that has it, in µs."""
    return {
        trial.block: trial.observed.us(cpu_s)
        for trial in trials
        if (cpu_s := server_cpu_s(trial, user_only=user_only)) is not None
    }
