"""The interface to the load generator `millrace-load`: a specification in, events and results out.

``spec`` defines the specification of a run and ``events`` its events; ``client`` executes a run,
and ``program`` finds and starts the program. ``datasets``, ``statement_activity`` and ``cpu_idle``
use its other functions: data sets, the statements under way, and keeping CPUs awake.

The choice of a trial's phases belongs to ``trial``; sending requests belongs to the program.
"""
