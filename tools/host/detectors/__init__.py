"""Detectors of secrets. Each answers yes or no about a piece of text and never hands out what it saw."""
