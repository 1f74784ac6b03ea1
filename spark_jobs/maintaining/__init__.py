"""Maintenance: compaction, expired snapshots, orphan files, retention."""
