"""Implement the use cases of millrace: what a command does, without how it is asked or printed.

A use case takes checked values, opens the store, calls the rooms below, and returns records.
``execution`` selects and executes runs for all that measure; ``experiments`` reads experiment files
and plans them on this host; ``doctor`` judges what ``host_activity`` sees of the host.

Nothing here prints: users learn of progress by events. Statistics belong in ``analysis``, wording
in ``report``, trials in ``campaign`` and ``trial``.
"""
