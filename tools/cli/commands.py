"""The commands by name: the module of each, and one line of help."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("tools.cli.init", "Create a store, its root key and a host file."),
    "connect": ("tools.cli.connect", "Print what a client needs to start the server."),
    "skill": ("tools.cli.skill", "Print the agent skill."),
    "cite": ("tools.cli.cite", "Print citation and evidence objects for a file."),
    "serve": ("tools.cli.serve", "Serve the memory tools over MCP."),
    "demo": ("tools.cli.demo", "Show the whole cycle in a temporary store."),
    "confirm": ("tools.cli.confirm", "Approve or deny what waits for a person."),
    "candidates": ("tools.cli.candidates", "Decide which candidates become records."),
    "records": ("tools.cli.records", "Look at records and their history."),
    "keys": ("tools.cli.keys", "Rotate keys; seal a copy of them to a recipient; list the copies."),
    "backup": ("tools.cli.backup", "Write a backup, or what was forgotten alone."),
    "restore": ("tools.cli.restore", "Restore a store; what was forgotten stays forgotten."),
    "replay": ("tools.cli.replay", "Read the past: events, or answers as of then."),
    "audit": ("tools.cli.audit", "Check the whole store; writes nothing."),
    "projections": ("tools.cli.projections", "Check, throw away and rebuild what answers are served from."),
    "stats": ("tools.cli.stats", "Print figures of the store; never content."),
    "doctor": ("tools.cli.doctor", "Look for the likeliest mistakes and say how to mend them."),
}
