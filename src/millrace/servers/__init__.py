"""Install, configure, run and snapshot the servers under test.

The modules here find and install servers, of the catalogue or added by the user. The packages
do the rest: ``sources`` fetches, ``configurations`` resolves options, ``instances`` runs servers
and removes everything of them, and ``snapshots`` keeps their loaded data directories.

What differs between families of servers belongs to ``millrace.databases``. What is done with a
running server in order to measure it belongs to ``millrace.trial``.
"""
