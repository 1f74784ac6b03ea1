"""Column types: as tables store them, and as sources name them."""
