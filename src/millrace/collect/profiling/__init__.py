"""Record CPU profiles by perf, and decode them to call paths.

The collector is ``collect.profile``. The program perf is found and isolated by
``millrace.host.perf``, and flame graphs are drawn by ``millrace.report``.
"""
