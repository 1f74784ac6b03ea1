"""What a table's modes make of its events beside the rows."""
