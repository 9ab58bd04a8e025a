"""The servers under test: where they come from, how they are configured, and their life."""
