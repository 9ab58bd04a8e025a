"""Implement the use cases of millrace: one for each thing that a command can do.

A use case takes checked values, opens the store, calls the packages below, and returns records.
``execution`` selects and executes runs for all use cases that measure. ``experiments`` reads
experiment files and plans them on this host. ``doctor`` checks the host that ``host_activity``
observes.

No module here prints: use cases report progress by events. Statistics belong in ``analysis``, the
wording of results in ``report``, and trials in ``campaign`` and ``trial``.
"""
