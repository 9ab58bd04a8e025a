"""TOML to a checked model, and the model to a plan."""
