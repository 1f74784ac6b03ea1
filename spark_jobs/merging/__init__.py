"""A batch into branches of its targets, its rehearsal, and targets made again."""
