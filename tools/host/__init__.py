"""The host's side: what a call is bound to, what it may do, and who decides (CONTRACT §1, §8)."""
