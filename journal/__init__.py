"""The journal: what an event is, who may read it, how it is proven, and where it goes."""
