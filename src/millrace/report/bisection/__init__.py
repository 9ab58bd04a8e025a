"""A search for a change among servers: sentences, a table, JSON, a page."""
