"""Run servers: their lifecycle, ownership, confinement and directories.

An instance is a server with its own data directory, socket and port. The owner of each process and
directory is recorded before it exists, so everything can be removed even after millrace was killed.
How a family initialises, starts and stops belongs to ``millrace.databases``.
"""
