"""Execute runs: choose the next trials from the results so far, measure them, store the results.

``scheduler`` has the only loop over blocks; a policy (``policies``) chooses the next block.
``resume`` selects the run. ``preparation`` and ``requirements`` check and provide everything that
the servers need before the first trial. ``attempts`` executes trials and stores their results.

Other packages have the steps of one trial (``trial``), the reading of experiment files
(``experiment``), and the commands that execute runs (``app``).
"""
