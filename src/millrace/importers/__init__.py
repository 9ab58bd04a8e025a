"""Read results of other tools: CSV files, and the output or export files of benchmark programs.

A reader returns plain values with their unit. Invalid input is an error with file, line and column.
Statistics and verdicts do not belong here: ``millrace.analysis`` computes them.
"""
