"""The results store, the only room that knows the results database."""
