"""Fuzzing: what reads foreign bytes, fed with bytes that nobody meant (``make fuzz``)."""
