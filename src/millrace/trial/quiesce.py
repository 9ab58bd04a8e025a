"""Wait until a server has done its pending work: dirty pages, purge, merges of the change buffer.

Pending work of one step would otherwise fall into the next. millrace makes a managed server write
at once, by settings that it restores afterwards; old versions would keep dirty pages for ever. It
only observes an external server. The family decides when a server has settled.
"""

import time
from dataclasses import dataclass

from millrace.databases.base import PendingSample, ServerClient
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import page_cache

_POLL_S = 0.25


@dataclass(frozen=True)
class Quiesced:
    """The end of the wait: work that still goes on, variables changed for it (and restored)."""

    settled: bool
    duration_s: float
    unsettled: tuple[str, ...]
    forced_flushing: tuple[str, ...]


def quiesce(client: ServerClient, *, limit_s: float) -> Quiesced:
    """Wait up to ``limit_s`` until it settles; write back a managed server. Raise TrialFailed."""
    began = time.monotonic()
    storage = client.family.storage
    samples = [PendingSample(0.0, storage.pending(client))]
    with storage.forced_flushing(client) as changed:
        while (left := storage.unsettled(samples)) and samples[-1].at_s < limit_s:
            time.sleep(_POLL_S)
            work = storage.pending(client)
            samples.append(PendingSample(time.monotonic() - began, work))
    if isinstance(client, Instance):
        page_cache.write_back(client.data_dir)
    return Quiesced(
        settled=not left,
        duration_s=time.monotonic() - began,
        unsettled=left,
        forced_flushing=tuple(changed),
    )
