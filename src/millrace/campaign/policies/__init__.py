"""Policies: choose what a run measures next, from the stored run alone.

``experiment`` has the fixed and the sequential policy. ``ablate``, ``bisect``, ``calibrate`` and
``confirm`` also create the experiment that they measure. Executing trials belongs to
``campaign.scheduler``, printing to ``cli``.
"""
