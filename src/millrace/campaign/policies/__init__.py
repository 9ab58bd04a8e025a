"""Policies that choose the next trials of a campaign."""
