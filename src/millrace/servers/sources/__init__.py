"""Where servers come from: coordinates, and one module a kind of source."""
