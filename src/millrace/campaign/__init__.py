"""Execute runs: choose trials from the results of earlier ones, measure them, and store them.

``scheduler`` has the only loop over blocks; a policy (``policies``) chooses what it measures next.
``resume`` selects the run, ``preparation`` and ``requirements`` provide and refuse what its servers
need before the first trial, and ``attempts`` executes trials and keeps their results. What a trial
does is in ``trial``, what a file says in ``experiment``, and how commands use all this in ``app``.
"""
