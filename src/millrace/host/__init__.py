"""Facts and facilities of the Linux host that measures.

Parsers of /proc and /sys, sockets and ELF files; clocks and limits of processes; tracing, perf and
valgrind; mounts and small file systems; and the lock by which one millrace measures at a time. It
knows no server and no trial, and judges nothing: ``doctor`` and the collectors do.
"""
