"""What ``engram demo`` shows: the story, the client that it drives, and the bytes that it looks for."""
