"""Folding: reduce changes to rows, by position alone, and compare them with what is stored."""
