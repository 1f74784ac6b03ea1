"""Folders and buckets, and the files that a batch keeps there beside the tables."""
