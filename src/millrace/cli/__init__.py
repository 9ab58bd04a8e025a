"""Provide the command line.

Each command has a module, which parses the arguments, calls a use case of ``app``, and prints the
result. ``main`` assembles the commands and maps errors to exit statuses. ``options``,
``experiment_options`` and ``fail_on`` define options that several commands share. ``console``
prints all output. ``progress`` and ``event_text`` print the events of use cases.

Decisions belong in ``app``, the wording of results in ``report``. No module here opens a store.
"""
