#!/bin/bash
# PostgreSQL runs this once, in an empty data folder: a user and a database of its own for the
# Iceberg catalog, apart from Airflow's.
set -euo pipefail
psql --set ON_ERROR_STOP=1 --set password="$CATALOG_PASSWORD" --username "$POSTGRES_USER" \
    --dbname "$POSTGRES_DB" <<'SQL'
CREATE USER sluice PASSWORD :'password';
CREATE DATABASE catalog OWNER sluice;
SQL
