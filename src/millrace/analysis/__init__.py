"""Pure functions from stored trials to comparisons and verdicts."""
