"""Merging: write a batch to branches of its targets, forecast that, and rebuild targets."""
