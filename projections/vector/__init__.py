"""The vector projection: what a text means, as a point that its like stand near."""
