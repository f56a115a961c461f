"""Telemetry: spans of calls and of admissions, for a collector that the host names."""
