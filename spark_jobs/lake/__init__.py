"""The lake's tables in Spark: names, schema evolution, branches, consistent cuts, and writes."""
