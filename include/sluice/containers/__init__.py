"""File contents: JSON, CSV, Avro, Parquet, framed messages, and compression."""
