"""A module whose ``command`` is none."""

command = "not a command"
