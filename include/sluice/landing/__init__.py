"""What a landed file is, whether it is whole, and how it is read."""
