"""Threads of a server: their kinds, their states, and the clients that they serve."""
