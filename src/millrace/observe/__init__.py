"""What a server did while it was measured: one observer a module, each with its cost."""
