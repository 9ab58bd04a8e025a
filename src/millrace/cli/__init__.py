"""Provide the command line: one module a command, which parses, calls a use case, and prints.

``main`` assembles the commands and maps errors to exit statuses; ``options``,
``experiment_options`` and ``fail_on`` define options that commands share; ``console`` is what every
text passes on its way out; ``progress`` and ``event_text`` say events of use cases in words.

What a command decides is decided in ``app``, what it prints is worded in ``report``. Nothing here
opens a store.
"""
