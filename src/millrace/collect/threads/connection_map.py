"""Map the server's sockets to the clients of the load generator's statement activity.

A client knows its own end. sock_diag reports the other end of a UNIX socket, the server's socket
tables that of TCP.
"""

from collections.abc import Mapping

from millrace.collect.threads.thread_reader import ThreadSample
from millrace.host import procfs, sockets
from millrace.loadgen.statement_activity import StatementActivity


def connection_map(activity: StatementActivity, pid: int, port: int | None) -> dict[int, int]:
    """Return the known slots of clients by the inodes of the server's sockets, or raise OSError."""
    ends = _ends(activity, pid, port)
    return {
        ends[client.by, client.socket]: client.slot
        for client in activity.clients()
        if (client.by, client.socket) in ends
    }


def slots_of_threads(
    samples: Mapping[int, ThreadSample], slots: Mapping[int, int]
) -> dict[int, int]:
    """Return the slots of clients by the threads that wait on their sockets (slots by inode)."""
    inodes = {tid: sockets.inode_of(each.waits_on or "") for tid, each in samples.items()}
    return {
        tid: slots[inode] for tid, inode in inodes.items() if inode is not None and inode in slots
    }


def _ends(activity: StatementActivity, pid: int, port: int | None) -> Mapping[tuple[str, int], int]:
    ways = {client.by for client in activity.clients()}
    found: dict[tuple[str, int], int] = {}
    if "inode" in ways:
        try:
            peers = sockets.peers()
        except OSError:
            peers = {}
        found |= {("inode", inode): other for inode, other in peers.items()}
    if "port" in ways and port is not None:
        for name in ("tcp", "tcp6"):
            text = (procfs.read_or_none(f"/proc/{pid}/net/{name}") or b"").decode()
            accepted = sockets.accepted_tcp(text, port)
            found |= {("port", remote): inode for remote, inode in accepted.items()}
    return found
