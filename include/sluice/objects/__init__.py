"""Folders and buckets, and what a batch keeps in them beside the tables."""
