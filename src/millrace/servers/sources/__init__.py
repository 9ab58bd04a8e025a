"""Fetch servers from their sources: coordinates, and one module per kind of source.

A coordinate names no host: mirrors, proxies and passwords come from the settings of the user's own
package clients. The modules here only fetch files; ``servers.assemble`` turns them into servers.
"""
