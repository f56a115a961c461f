"""Exact lexical ranking over keyed tokens: the projection ``lexical``."""
