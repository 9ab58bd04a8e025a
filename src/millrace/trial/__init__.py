"""Carries a plan out, one trial after another, and records what the host was like."""
