"""Threads that work aside while who asks does what it can: they embed a query, and scan what it is compared with.

One pool does both. The thread that embedded a query goes on with the scan; where none did, one that was awake a moment
ago is on another core than who asks, while one of another pool may be woken on the very same and begin when that has
done its part (half of all scans, on two cores).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from journal import limits


@lru_cache(maxsize=1)
def threads() -> ThreadPoolExecutor:
    """Return the threads, as many as there are cores: more would only keep each other, and the process's end, waiting.

    Whoever cannot wait for a free one cancels, and does it alone.
    """
    cores = max(limits.SEMANTIC_ASIDE_THREADS_LEAST, os.cpu_count() or 1)
    return ThreadPoolExecutor(min(cores, limits.SEMANTIC_ASIDE_THREADS), thread_name_prefix="engram-aside")


os.register_at_fork(after_in_child=threads.cache_clear)  # a child has none of them
