"""Upcasters of older formats. The first format has none."""
