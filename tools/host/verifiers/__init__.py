"""Evidence verifiers: what the host itself finds out about what a candidate cites (CONTRACT §7)."""
