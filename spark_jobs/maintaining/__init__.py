"""Small files, deletes, old snapshots, retention."""
