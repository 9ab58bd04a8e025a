"""Read TOML into a checked model, and expand the model to a plan."""
