"""Sluice: loads change-data-capture files from object storage into Apache Iceberg tables."""

__version__ = "0.1.0"
