"""The journal on LMDB: one machine, any number of processes."""
