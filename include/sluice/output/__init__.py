"""Output for people and programs: tables, JSON lines, CSV, HTML pages, answers to SQL."""
