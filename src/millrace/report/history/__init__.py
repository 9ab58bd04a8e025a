"""A series of ratios from version to version, in every format."""
