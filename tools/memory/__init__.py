"""The six governed memory tools: one module a tool, one path for all mutations."""
