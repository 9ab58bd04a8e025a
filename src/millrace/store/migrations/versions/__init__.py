"""Contain the migrations; each file takes the schema one revision further."""
