"""The project as its files say it: read, checked and typed once."""
