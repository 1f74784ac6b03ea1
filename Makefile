# Sluice: every target sets up what it needs, once. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# spark-submit finds its home through the python3 on PATH, so the virtual environment comes first;
# a Spark that the shell points to instead would be another version without the jars.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
unexport SPARK_HOME SPARK_CONF_DIR PYTHONPATH PYTHONHOME VIRTUAL_ENV
export PYTHON

PYTEST_ARGS ?=
# One process uses little more than one core: its JVM plans on one thread most of the time.
TEST_WORKERS ?= 2
BENCH_ARGS ?=
PORT ?= 8080

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  \033[36m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: .venv/.setup/done ## Virtual environment, packages, Java, jars; once (about 5 minutes)
	@:

# Each step of the script knows by its own inputs whether it is done; these only say when to look.
.venv/.setup/done: requirements.txt pyproject.toml jars.lock scripts/setup.sh scripts/lib.sh scripts/fetch_jars.py
	@scripts/setup.sh
	@touch $@

.PHONY: demo
demo: setup ## Two hourly batches of three formats into Iceberg, then one that fails and is rolled back
	@.venv/bin/python -m demo

.PHONY: up
up: setup ## Airflow's web interface on this machine, with the pipelines of include/pipelines
	@scripts/airflow.sh up $(PORT)

.PHONY: down
down: ## Stop what `make up` started
	@scripts/airflow.sh down

##@ Develop

.PHONY: setup-tests
setup-tests: setup .venv/.setup/tests-done ## What only the tests need: an S3 server, two database servers
	@:

.venv/.setup/tests-done: scripts/setup_tests.sh scripts/go.txt .venv/.setup/done
	@scripts/setup_tests.sh
	@[[ -f .venv/.setup/incomplete ]] || touch $@

.PHONY: test
test: setup-tests ## All tests but formats and long, in TEST_WORKERS processes (2) with a Spark each
	@SLUICE_INTERPRETED=1 .venv/bin/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

.PHONY: test-formats
test-formats: setup ## Conformance suites of the newer formats: canal, shareplex, dts_avro, … (25 minutes)
	@.venv/bin/python -m pytest tests/spark -m formats $(PYTEST_ARGS)

.PHONY: test-long
test-long: setup ## What takes too long for every run: recordings, verify and defaults at length (an hour)
	@.venv/bin/python -m pytest tests/spark tests/airflow tests/unit -m long $(PYTEST_ARGS)

.PHONY: faults
faults: setup ## A process killed at every named point and, SLUICE_KILLS times, at random (two hours)
	@.venv/bin/python -m pytest tests/faults -m faults $(PYTEST_ARGS)

.PHONY: prove
prove: setup ## The promise in every format: SLUICE_PROVE histories each, drawn and shrunk (5: an hour)
	@SLUICE_PROVE=$${SLUICE_PROVE:-5} .venv/bin/python -m pytest tests/spark -m spark -k of_events_alone $(PYTEST_ARGS)

.PHONY: schedules
schedules: setup ## Recordings in SLUICE_SCHEDULES random schedules, every mode (100: three hours)
	@SLUICE_SCHEDULES=$${SLUICE_SCHEDULES:-100} .venv/bin/python -m pytest tests/spark/promise/test_schedules.py -m long $(PYTEST_ARGS)

.PHONY: test-unit
test-unit: setup ## What needs neither a JVM nor Airflow, a server or a catalog (a minute)
	@.venv/bin/python -m pytest tests/unit -n $(TEST_WORKERS) -m 'not (catalog or spark or airflow or s3 or scheduler or faults)' $(PYTEST_ARGS)

.PHONY: lint
lint: setup ## ruff (rules and format), mypy: strict on the product, less so on tests and bench
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

.PHONY: format
format: setup ## Let ruff write what `make lint` asks for
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

.PHONY: schemas
schemas: setup ## Write the JSON schemas of the configuration, for editors, into include/schemas
	@.venv/bin/python -c 'from pathlib import Path; from sluice.config.schemas import write_schemas; \
	  write_schemas(Path("include/schemas"))'

.PHONY: bench
bench: setup ## Sluice beside the hand-written jobs, in one run (BENCH_ARGS="...")
	@.venv/bin/python -m bench $(BENCH_ARGS)

.PHONY: bench-decode
bench-decode: setup ## Each format's decoder beside Spark's typed read of the same bytes
	@.venv/bin/python -m bench.decode $(BENCH_ARGS)

.PHONY: lock
lock: setup ## Compile requirements.in into requirements.txt, and write the sha256 of jars.lock
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links requirements.in -o requirements.txt
	@sed -i '1i # Compiled from requirements.in by `make lock`; do not edit by hand.' requirements.txt
	@.venv/bin/python scripts/fetch_jars.py --update

.PHONY: clean
clean: down ## Delete what the set-up made: .venv, .jars, .tools, .airflow, caches; data/ stays
	@rm -rf .venv .jars .tools .airflow .setup.lock .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
