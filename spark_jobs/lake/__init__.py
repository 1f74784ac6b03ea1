"""The lake's tables from Spark: names, evolution, branches, cuts; the writes of a merge."""
