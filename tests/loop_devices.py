"""Loop devices of file systems of limited size: whether the host has them, and which are in use."""

import time
from pathlib import Path

import pytest

from millrace.errors import Unavailable
from millrace.host.limited_filesystem import require_limited_filesystem


def skip_without_loop_devices(directory: Path) -> None:
    """Skip the test where no file system of limited size can be mounted in ``directory``."""
    try:
        require_limited_filesystem(directory)
    except Unavailable as reason:
        pytest.skip(reason.message)


def uses_loop_device(image: Path) -> bool:
    """Return whether a loop device has the file, also a removed one."""
    listed = Path("/sys/block").glob("loop*/loop/backing_file")
    names = []
    for file in listed:
        try:
            names.append(file.read_text(encoding="utf-8").strip())
        except OSError:  # freed meanwhile
            continue
    return any(name.removesuffix(" (deleted)") == str(image) for name in names)


def is_freed(image: Path) -> bool:
    """Return whether the device is free, or soon is: the kernel frees it a little later."""
    until_s = time.monotonic() + 10
    while uses_loop_device(image) and time.monotonic() < until_s:
        time.sleep(0.01)
    return not uses_loop_device(image)
