"""Each file brings the schema one revision on."""
