"""Streamable HTTP for many principals at once: tokens, sessions, the checks before them, and an orderly end."""
