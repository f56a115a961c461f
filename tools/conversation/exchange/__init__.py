"""Taking conversation memory out of a store and bringing it in: one user's messages, tags and profile, as files."""
