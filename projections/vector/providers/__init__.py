"""Where embeddings come from, one file a provider."""
