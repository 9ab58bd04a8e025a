"""Facts and facilities of the host: procfs, CPUs, tracing, perf, exclusive use."""
