"""The results store: an SQLite database of runs, their trials and histories, and files beside it.

``store`` has the transactions, ``records`` and ``history_records`` what goes in and comes out,
``schema`` the tables, and ``checked`` the rules that records obey, also those of other users'
archives. Analyses import only the records: verdicts, rates and whatever else can be derived are not
stored, and no other package knows the database.
"""
