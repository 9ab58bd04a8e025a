"""Fetch servers from their sources: coordinates, and one module a kind of source.

A coordinate names no host: mirrors, proxies and passwords are those of the user's own package
clients. Modules here fetch files; ``servers.assemble`` makes a server of them.
"""
