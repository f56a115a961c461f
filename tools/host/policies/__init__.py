"""Admission policies: who decides whether a candidate becomes a record (CONTRACT §8)."""
