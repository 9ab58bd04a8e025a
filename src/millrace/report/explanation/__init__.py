"""Explanations of where the time of an operation goes, and why two treatments differ, in every
format."""
