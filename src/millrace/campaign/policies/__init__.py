"""The kinds of runs: what each measures next, decided from the stored run alone.

Those of an ``experiment`` are fixed or sequential; ``ablate``, ``bisect``, ``calibrate`` and
``confirm`` also make the experiment of a campaign. None executes trials or prints anything.
"""
