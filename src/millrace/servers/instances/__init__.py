"""Run servers: their lifecycle, ownership, confinement and directories.

An instance is a server with its own data directory, socket and port. Each of its processes and
directories has a recorded owner before it exists, so that all can be removed even after millrace
was killed. How a family initialises, starts and stops belongs to ``millrace.databases``.
"""
