"""Folders and buckets, and the files of batches that are kept there beside the tables."""
