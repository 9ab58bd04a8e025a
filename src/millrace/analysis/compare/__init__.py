"""Compare the treatments of a run, and decide when it may stop.

Ratios with intervals, verdicts, refusals, correction for the number of comparisons, calibrations
and bisections belong here. Why two treatments differ is for ``explain``, whether a trial was steady
for ``steady``.
"""
