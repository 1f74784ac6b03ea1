"""What a batch has, and what each table takes of it: columns, keys, types, names, defaults."""
