"""The contract with the load generator `millrace-load`: a specification in, results out.

``spec`` is what it is asked, ``events`` what it answers, ``client`` runs it, and ``program`` finds
it. Beside runs, it generates data sets, shares what its clients execute, and keeps CPUs awake.
Which phases a trial has is decided in ``trial``; how they are sent, by the program itself.
"""
