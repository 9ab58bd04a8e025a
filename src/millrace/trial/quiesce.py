"""Waits until a server has done what it put off: dirty pages, purge, merges of the change buffer.

Work left over from one step would be done, and paid for, in the middle of the next. A managed
server is made to write at once, by settings that are put back after; old versions would keep dirty
pages for ever. A server that is not ours is only watched. Its family says when it has settled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from millrace.databases.base import PendingSample, PendingWork
from millrace.databases.client import ServerClient
from millrace.servers.instances.lifecycle import Instance
from millrace.servers.snapshots import page_cache

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Quiesced:
    """How the waiting ended: ``unsettled`` says what still went on, empty when it is settled.

    ``hurried`` are the variables that were changed for it, and are as they were again.
    """

    settled: bool
    duration_s: float
    first: PendingWork
    last: PendingWork
    unsettled: tuple[str, ...]
    hurried: tuple[str, ...]


def quiesce(client: ServerClient, *, limit_s: float) -> Quiesced:
    """Wait until the server has settled, for ``limit_s`` at most.

    The file system of a server of ours is written back too. Raises TrialFailed when the server does
    not answer.
    """
    began = time.monotonic()
    storage = client.family.storage
    samples = [PendingSample(0.0, storage.pending(client))]
    with storage.forced_flushing(client) as hurried:
        while (left := storage.unsettled(samples)) and samples[-1].at_s < limit_s:
            time.sleep(_LOOK_EVERY_S)
            work = storage.pending(client)
            samples.append(PendingSample(time.monotonic() - began, work))
    if isinstance(client, Instance):
        page_cache.write_back(client.data_dir)
    return Quiesced(
        settled=not left,
        duration_s=time.monotonic() - began,
        first=samples[0].work,
        last=samples[-1].work,
        unsettled=left,
        hurried=tuple(hurried),
    )
