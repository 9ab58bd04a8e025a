"""Read results of other tools: CSV files of values, and what benchmarks print or export.

A reader returns plain values with their unit, and refuses, with file, line and column, what it
cannot read. It judges nothing: that is for ``millrace.analysis``.
"""
