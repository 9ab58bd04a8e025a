"""Explanations of where time goes, and why two treatments differ, in every format."""
