"""CPU profiles: recordings by perf, decoded to call paths."""
