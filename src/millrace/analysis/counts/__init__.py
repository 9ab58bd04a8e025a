"""Compare treatments by counted instructions: of a statement, and of each function.

Counts have no noise of the host, so that none of the rules of ``compare`` apply. Counting itself is
in ``millrace.collect``.
"""
