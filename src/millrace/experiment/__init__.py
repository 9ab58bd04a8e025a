"""Read TOML into a checked model, and expand the model to a plan.

``read`` makes an ``Experiment`` (``model``) of a file, after all its mistakes are reported together
(``validation``, ``settings``, ``levels``). ``plan`` expands it to trials in an order that
``groups``, ``rounds`` and ``aa_trials`` define; ``estimate`` and ``budget`` are about their time.
Nothing here measures, or knows what a store has: that is in ``campaign``.
"""
