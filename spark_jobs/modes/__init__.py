"""Modes: history, soft deletes and tables of events, which are made beside or in a target."""
