"""What the server is measured beside: a tool that does nothing, on the same SDK and the same transports."""
