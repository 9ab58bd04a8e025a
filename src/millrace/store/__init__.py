"""Keep results: an SQLite database of runs, their trials and histories, with files next to it.

``store`` has the transactions, ``records`` and ``history_records`` define the values that go in and
come out, ``schema`` the tables, and ``checked`` the rules that records obey, also those in archives
of other users. Analyses import only the records. Verdicts, rates and all else that can be derived
are not stored, and no other package knows the database.
"""
