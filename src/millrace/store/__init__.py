"""Store results; only this package knows the results database."""
