"""What bench/retrieval.py is made of: the sets of questions, the engine that is asked, and what can be switched off."""
