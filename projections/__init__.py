"""Projections: pure folds of the journal, from which search and get are served. Each can be thrown away."""
