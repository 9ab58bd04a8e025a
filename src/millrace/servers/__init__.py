"""Install, configure, run and snapshot the servers under test.

The modules here find and install servers: those of the catalogue and those that the user added. The
packages do the rest: ``sources`` downloads servers, ``configurations`` resolves options,
``instances`` runs servers and cleans up after them, and ``snapshots`` keeps loaded data
directories.

Differences between database families belong to ``millrace.databases``. Measuring a running server
belongs to ``millrace.trial``.
"""
