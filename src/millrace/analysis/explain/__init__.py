"""Explanations: where time goes, and why two treatments differ."""
