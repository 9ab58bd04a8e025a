"""Define the patterns for the error logs of all versions of the mysqld line."""

from __future__ import annotations

import re

from millrace.databases.base import LogPatterns

# A line that reports an error, in the styles of all versions.
_ERROR = re.compile(rb"\[ERROR\]|\[FATAL\]|^ERROR: |Fatal error|mysqld: |mariadbd: ", re.I)
_NO_ERROR = re.compile(rb"\[(?:Note|System)\]", re.I)

# The text before the message of a line: date, time, process or thread, kind.
_BEFORE_ERROR = re.compile(r"^.*?\[ERROR\]\s*", re.I)
_BEFORE_WORDS = re.compile(
    r"^(?:\d{6}|\d{4}-\d\d-\d\d)?[T ]*\d{1,2}:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d| UTC -)?\s+"
    r"(?:(?:0x)?(?=[a-f]*\d)[0-9a-f]++\s+)?(?:\[\w+\]\s*)?"
)

# Errors after which a server cannot continue, or on which it waits for ever.
_TROUBLE = re.compile(
    rb"disk is full|no space left on device|disk full|errcode: 28\b|error number 28\b"
    rb"|\bgot (?:signal|exception)|assertion failure|\[FATAL\]"
    rb"|intentionally generate a (?:memory|seg)"
    rb"|cannot continue operation|\bis marked as crashed|database page corruption",
    re.I,
)

# (pattern, meaning). The first match is the reason.
_REASONS = (
    (
        re.compile(rb"bind on tcp/ip port.*address already in use|server running on port", re.I),
        "the port {port} is taken by another process",
    ),
    (
        re.compile(
            rb"bind on unix socket|is using unix socket|server running on socket"
            rb"|setup unix socket lock file",
            re.I,
        ),
        "the socket {socket} is taken by another process",
    ),
    (
        re.compile(
            rb"(?:errcode:|error number) 28\b|no space left|disk (?:is )?full"
            # InnoDB guesses this after every short write: not where it names another error.
            rb"|\A(?!.*error number (?!28\b|0\b)\d).*check (?:also )?that the disk is not full",
            re.I | re.S,
        ),
        "the disk is full",
    ),
)

PATTERNS = LogPatterns(
    error=_ERROR,
    no_error=_NO_ERROR,
    before_error=_BEFORE_ERROR,
    before_words=_BEFORE_WORDS,
    trouble=_TROUBLE,
    reasons=_REASONS,
)
