"""Inspection of landed files: their format, whether they are whole, and how to read them."""
