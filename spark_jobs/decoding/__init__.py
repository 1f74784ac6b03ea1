"""Decoding: turn a batch's files into changelog rows, and quarantine the records that are bad."""
