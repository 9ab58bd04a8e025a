"""Collectors: they observe a server from outside while a trial measures it; one module each."""
