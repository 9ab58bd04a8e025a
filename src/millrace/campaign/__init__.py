"""Asks for more trials because of what earlier ones showed: sees both sides of the store."""
