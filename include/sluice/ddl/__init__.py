"""DDL statements: which tables, columns and defaults they change. They are parsed,
never executed."""
