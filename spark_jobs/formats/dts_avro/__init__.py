"""Alibaba DTS: Avro records, and the same printed as JSON."""
