"""The four conversation tools over what was said: their arguments and the readings of what people write in them."""
