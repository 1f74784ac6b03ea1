"""The Iceberg catalog without a JVM: tables, their snapshots and branches."""
