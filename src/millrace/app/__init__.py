"""Implement the use cases of millrace, shared by the command line and other front ends."""
