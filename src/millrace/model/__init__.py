"""Records and words that several packages share: frozen, typed, and without I/O.

They are what trials observe and analyses read: specifications of runs, facts of hosts and servers,
observations, events, and the names of measurements. Documents (``documents``) check their keys and
values when they are read. What only one package uses is not here.
"""
