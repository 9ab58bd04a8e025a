"""Read experiment files, check them, and expand them to plans of trials.

``read`` returns the ``Experiment`` (``model``) of a file; all mistakes are reported together
(``validation``, ``settings``, ``levels``). ``plan`` expands it to trials, in the order that
``groups``, ``rounds`` and ``aa_trials`` define. ``estimate`` estimates their time and disk space,
and ``budget`` fits them into a time limit.

Executing trials, and everything that reads the store, belongs to ``campaign``.
"""
