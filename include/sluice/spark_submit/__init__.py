"""spark-submit as a child process: its start, its end, and what it says."""
