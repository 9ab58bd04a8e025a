"""Schedule trials from the results of earlier ones; reads and writes the store."""
