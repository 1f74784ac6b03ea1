"""The project's configuration: its files are read, checked and typed once."""
