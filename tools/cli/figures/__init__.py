"""The figures of ``engram stats``: of the store as a whole, and of one scope."""
