"""What bench/search_speed.py measures: the lexical index by itself, a store that is written to, the vector index."""
