"""What people and programs see: tables, JSON lines, CSV, pages, answers to SQL."""
