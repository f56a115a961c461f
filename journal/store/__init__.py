"""Where the journal goes: the storage port and its engines."""
