"""Hold published figures of studies as data, a TOML file each, and look them up.

``lookup`` finds the figure for the conditions of a measurement. It imports nothing of ours, and
compares nothing: ``analysis`` relates a figure to what was measured.
"""
