"""Read the size of a zip archive's directory before ``zipfile`` loads it into memory."""

import os
import struct
import zipfile
from dataclasses import dataclass
from typing import BinaryIO

# The end of central directory record, and its ZIP64 variant (APPNOTE.TXT 6.3.10, 4.3.14 to 4.3.16).
_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\5\6"
_END_64_LOCATOR = struct.Struct("<4sLQL")
_END_64_LOCATOR_SIGNATURE = b"PK\6\7"
_END_64 = struct.Struct("<4sQ2H2L4Q")
_END_64_SIGNATURE = b"PK\6\6"
_LONGEST_COMMENT_BYTES = 0xFFFF


@dataclass(frozen=True)
class End:
    """The end record of an archive: the number of members and the bytes of its directory."""

    members: int
    size_bytes: int
    has_comment: bool


def read_end(file: BinaryIO) -> End:
    """Return the end record that ``zipfile`` would find in ``file``, and rewind the file.

    ``zipfile`` reads ``size_bytes`` of directory, whatever ``members`` is. Raise BadZipFile if that
    record is missing.
    """
    longest = _END_64.size + _END_64_LOCATOR.size + _END.size + _LONGEST_COMMENT_BYTES
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(size_bytes - longest, 0))
    tail = file.read()
    file.seek(0)
    start = len(tail) - _END.size
    if start < 0 or tail[start : start + 4] != _END_SIGNATURE or tail[-2:] != b"\0\0":
        start = tail.rfind(_END_SIGNATURE)
    if start < 0 or len(tail) < start + _END.size:
        raise zipfile.BadZipFile("it has no end of central directory record")
    _, _, _, _, members, directory_bytes, _, comment = _END.unpack_from(tail, start)
    locator = start - _END_64_LOCATOR.size
    record = locator - _END_64.size
    if record >= 0 and tail[locator:start].startswith(_END_64_LOCATOR_SIGNATURE):
        fields = _END_64.unpack_from(tail, record)
        if fields[0] == _END_64_SIGNATURE:  # zipfile ignores any other record
            members, directory_bytes = max(members, fields[7]), fields[8]
    return End(members, directory_bytes, has_comment=bool(comment) or start + _END.size < len(tail))
