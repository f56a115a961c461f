"""What is done with a whole journal: rebuilding, reading the past, telling a story, the audit."""
