"""Debezium: JSON and Avro, of every connector."""
