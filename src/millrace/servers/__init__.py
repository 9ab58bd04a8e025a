"""Install, configure, run and snapshot the servers under test."""
