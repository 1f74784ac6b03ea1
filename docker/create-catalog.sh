#!/bin/bash
# PostgreSQL runs this once, in an empty data folder: a user and a database of its own for the
# Iceberg catalog, apart from Airflow's.
set -euo pipefail
psql --set ON_ERROR_STOP=1 --set password="$CATALOG_PASSWORD" --username "$POSTGRES_USER" \
    --dbname "$POSTGRES_DB" <<'SQL'
CREATE USER sluice PASSWORD :'password';
-- A commit takes milliseconds. A process that is suspended in one would lock its row until it wakes.
ALTER USER sluice SET idle_in_transaction_session_timeout = '1min';
CREATE DATABASE catalog OWNER sluice;
SQL
