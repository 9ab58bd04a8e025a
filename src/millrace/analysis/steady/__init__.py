"""Assess whether trials were steady, and refuse the comparison of those that were not.

The figures of a server are recorded by ``millrace.trial``; what else refuses a comparison, such as
unequal work, is in ``compare``.
"""
