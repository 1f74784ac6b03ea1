"""spark-submit as a child process: its command line, its time limit, and its output."""
