"""Targets beside what their changelogs, or the source itself, say."""
