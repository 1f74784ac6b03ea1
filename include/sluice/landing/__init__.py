"""Inspect landed files: what they hold, whether they are whole, how to read them."""
