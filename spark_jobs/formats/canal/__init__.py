"""Canal and its relatives: one message holds many rows."""
