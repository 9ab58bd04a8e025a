"""Comparisons, verdicts, and when a run may stop."""
