# One image for Airflow and for Spark's master and workers: driver and executors then have the same
# Python minor version, the same jars and the same Spark by construction. It is made by the set-up
# that a developer's machine uses, from the same locks.

# --- The S3 server of docker-compose.yaml, the same version as in the tests ------------------------
FROM golang:1.25.5-bookworm AS s3-build
# The version of scripts/setup_tests.sh; a test holds them equal.
RUN CGO_ENABLED=0 GOBIN=/out \
    go install -ldflags '-s -w' github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM alpine:3.22.2 AS s3
COPY --from=s3-build /out/versitygw /usr/local/bin/versitygw
RUN adduser -D -u 50000 s3 && install -d -o s3 /s3 /s3/objects /s3/metadata /s3/versions
USER s3
ENTRYPOINT ["versitygw"]
CMD ["--port", ":7070", "--health", "/healthz", "posix", "--sidecar", "/s3/metadata", \
     "--versioning-dir", "/s3/versions", "/s3/objects"]

# --- Airflow, Spark and Sluice ---------------------------------------------------------------------
FROM python:3.11.14-slim-bookworm AS sluice
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/sluice
# The environment first: it changes seldom, the code often.
COPY requirements.in requirements.txt pyproject.toml jars.lock README.md ./
COPY scripts scripts
RUN scripts/setup.sh && rm -rf /root/.cache /root/.ivy2
COPY include include
COPY spark_jobs spark_jobs
COPY plugins plugins
COPY dags dags
COPY docker docker
# Now that the code is there: the JVM's classes for a quick start.
RUN scripts/setup.sh
RUN useradd --uid 50000 --create-home airflow && install -d -o airflow /opt/airflow
USER airflow
ENV PATH=/opt/sluice/.venv/bin:$PATH \
    PYTHONPATH=/opt/sluice \
    AIRFLOW_HOME=/opt/airflow \
    SLUICE_PROJECT=/opt/sluice/docker/project
ENTRYPOINT ["tini", "--"]
CMD ["airflow", "version"]
