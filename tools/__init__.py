"""The tools: what agents call, the host that binds them, the server and the command line."""
