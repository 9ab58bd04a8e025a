"""Results that others measured: files of values, and what other benchmarks print."""
