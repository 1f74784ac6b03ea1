"""Statements of DDL: what they say of tables, columns and defaults; parsed, never executed."""
