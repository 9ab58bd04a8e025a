"""Read facts of the Linux host, and use its kernel interfaces.

This package parses /proc and /sys, sockets and ELF files; reads clocks and limits of processes;
runs tracing, perf and valgrind; mounts file systems; and holds the lock that lets only one millrace
measure at a time. Code about servers and trials does not belong here, nor does the assessment of
facts: ``doctor`` and the collectors do that.
"""
