"""Name the roles that servers play in a trial."""

SERVER = "server"
"""The role of a trial's only server."""

SOURCE, REPLICA = "source", "replica"
"""The roles of a server that clients change, and of one that repeats its changes."""

MEASURED = (SERVER, REPLICA)
"""The roles of the server that figures are about; a trial has one of them."""
