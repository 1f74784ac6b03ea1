"""A batch into the changelogs: decoders run, bad records aside, names and tables followed."""
