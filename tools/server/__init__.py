"""The MCP server: the strict reader, the envelope, the tools as an agent sees them, and the stdio transport."""
