"""Name the roles of servers in a trial."""

SERVER = "server"
"""The role of a trial's only server."""

SOURCE, REPLICA = "source", "replica"
"""The roles of a server on which clients write, and of its replica."""

MEASURED = (SERVER, REPLICA)
"""The roles of the measured server; each trial has one of them."""
