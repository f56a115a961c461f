"""Exact search over messages, by words and by substring, apart by owner: the projection ``messages``."""
