"""Verification: targets compared with their changelogs, or with the source itself."""
