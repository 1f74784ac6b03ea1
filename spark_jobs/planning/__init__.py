"""The plan of a batch: each table's columns, keys, types, names and defaults."""
