"""Store results: an SQLite database of runs, trials and histories, with files next to it.

``store`` runs the transactions. ``records`` and ``history_records`` define the values that are
written and read, ``schema`` defines the tables, and ``checked`` validates records, including those
in archives from other users. Verdicts, rates and other derived values do not belong here: analyses
compute them from the records. No other package accesses the database.
"""
