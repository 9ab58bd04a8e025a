"""Records that several rooms share: frozen, typed, and without I/O."""
