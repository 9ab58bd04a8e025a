"""Provide the published results of studies.

Each study is a TOML file. ``lookup`` finds the published figure for the conditions of a
measurement. Comparing figures with measured values belongs in ``analysis``. This package imports no
other package of millrace.
"""
