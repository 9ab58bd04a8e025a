"""A run: its verdicts, tables, charts and notes, in every format."""
