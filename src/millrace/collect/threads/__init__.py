"""Find the threads of a server: their kinds, their states, and the clients that they serve.

Collectors use these modules, and ``trial.thread_placement`` to place the thread of a client; no
module here is a collector.
"""
