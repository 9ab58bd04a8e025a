"""System calls in which a server's threads wait: their numbers by architecture.

None where an architecture has no call of the name. The kernel never changes a number.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

_X86_64, _AARCH64 = "x86_64", "aarch64"

# Name: number on x86_64, number on aarch64.
_NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "open": (2, None),
    "close": (3, 57),
    "stat": (4, None),
    "fstat": (5, 80),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "ioctl": (16, 29),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "select": (23, None),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "msync": (26, 227),
    "madvise": (28, 233),
    "pause": (34, None),
    "nanosleep": (35, 101),
    "sendfile": (40, 71),
    "connect": (42, 203),
    "accept": (43, 202),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "clone": (56, 220),
    "exit": (60, 93),
    "wait4": (61, 260),
    "semop": (65, 193),
    "fcntl": (72, 25),
    "flock": (73, 32),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "truncate": (76, 45),
    "ftruncate": (77, 46),
    "rename": (82, None),
    "unlink": (87, None),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sync": (162, 81),
    "readahead": (187, 213),
    "futex": (202, 98),
    "io_setup": (206, 0),
    "io_destroy": (207, 1),
    "io_getevents": (208, 4),
    "io_submit": (209, 2),
    "getdents64": (217, 61),
    "restart_syscall": (219, 128),
    "semtimedop": (220, 192),
    "fadvise64": (221, 223),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "epoll_wait": (232, None),
    "openat": (257, 56),
    "unlinkat": (263, 35),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "sync_file_range": (277, 84),
    "epoll_pwait": (281, 22),
    "fallocate": (285, 47),
    "accept4": (288, 242),
    "preadv": (295, 69),
    "pwritev": (296, 70),
    "recvmmsg": (299, 243),
    "syncfs": (306, 267),
    "sendmmsg": (307, 269),
    "renameat2": (316, 276),
    "copy_file_range": (326, 285),
    "preadv2": (327, 286),
    "pwritev2": (328, 287),
    "io_pgetevents": (333, 292),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "clone3": (435, 435),
    "epoll_pwait2": (441, 441),
    "futex_waitv": (449, 449),
    "futex_wait": (455, 455),
}


@functools.cache
def names(architecture: str | None = None) -> Mapping[int, str]:
    """Return the names of the system calls by number.

    ``architecture`` is a name as ``uname -m`` prints it, by default that of this host. The result
    is empty where the numbers of the architecture are unknown.
    """
    machine = architecture or os.uname().machine
    if machine not in (_X86_64, _AARCH64):
        return {}
    column = (_X86_64, _AARCH64).index(machine)
    return {
        number: name
        for name, numbers in _NUMBERS.items()
        if (number := numbers[column]) is not None
    }
