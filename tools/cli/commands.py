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
    "records": ("tools.cli.records", "Look at records and their history; supersede, dispute, rewind or expire one."),
    "keys": ("tools.cli.keys", "Rotate keys; seal a copy of them to a recipient; list the copies."),
    "backup": ("tools.cli.backup", "Write a backup, or what was forgotten alone."),
    "restore": ("tools.cli.restore", "Restore a store; what was forgotten stays forgotten."),
    "brief": ("tools.cli.brief", "Print what an agent is told at the start of a session."),
    "export": ("tools.cli.export", "Write your conversation memory to a file."),
    "import": ("tools.cli.import_", "Bring in messages that another store or program holds."),
    "timeline": ("tools.cli.timeline", "List what was said, newest first."),
    "search": ("tools.cli.search", "Search records and messages as agents do, and see why each was found."),
    "messages": ("tools.cli.messages", "Show, pin, archive or erase a message."),
    "tags": ("tools.cli.tags", "Look at project tags, and change them by hand."),
    "profile": ("tools.cli.profile", "Look at what is known of the user, and change it by hand."),
    "replay": ("tools.cli.replay", "Read the past: events, or answers as of then."),
    "audit": ("tools.cli.audit", "Check the whole store; writes nothing."),
    "checkpoint": ("tools.cli.checkpoint", "Sign a checkpoint of the journal; keep a copy outside."),
    "prove": ("tools.cli.prove", "Prove that an event is in the journal, or check such a proof."),
    "projections": ("tools.cli.projections", "Check, throw away and rebuild what answers are served from."),
    "stats": ("tools.cli.stats", "Print figures of the store; never content."),
    "doctor": ("tools.cli.doctor", "Look for the likeliest mistakes and say how to mend them."),
}
