"""Observe a server from outside while a trial measures it, with one module a collector.

Collectors follow the protocol in ``model`` and are listed in ``registry``. The packages hold what
they and the counting of instructions use: ``threads``, ``profiling`` and ``counting``.

A collector neither runs load nor judges what it observed: ``millrace.trial`` decides when it
observes, and ``millrace.analysis`` what its observations mean. The queries that it sends to a
server are those of the family, in ``databases.monitoring``.
"""
