"""What holds records in a file: JSON, CSV, Avro, Parquet, framed messages, compression."""
