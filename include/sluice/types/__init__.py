"""Types of columns: as tables store them, and as MySQL and other sources name them."""
