"""Count the instructions of statements: read what callgrind wrote, and choose what counts.

No process is started here: ``trial.counting`` runs the server in callgrind.
"""
