"""Threads of a server: which serve clients, and the states they are in."""
