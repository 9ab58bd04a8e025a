"""A calibration of a host: sentences, a table, JSON."""
