"""Measurements beside something to compare with; each program is run by itself."""
