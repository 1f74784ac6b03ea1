#!/bin/bash
# The `init` service of docker-compose.yaml: runs at every start and changes nothing the second time.
set -euo pipefail

airflow db migrate

umask 077
python - <<'PY'
import json, os
from pathlib import Path

passwords = {"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}
path = os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]
Path(path).write_text(json.dumps(passwords))
PY

python - <<'PY'
import os

import boto3

s3 = boto3.client("s3", endpoint_url=os.environ["SLUICE_S3_ENDPOINT"])
there = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
for bucket in {"landing", "lake"} - there:
    s3.create_bucket(Bucket=bucket)
    print("created bucket", bucket)
PY
