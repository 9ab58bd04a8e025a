"""Import results of other tools: files of values, and the output of other benchmarks."""
