# make demo: set-up and the main job. make test: everything that has to hold.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help check setup emulators charts demo demo-live demo-s3 test slow compat compat-short compat-fresh yarn package api soak mutants scenarios bench clean distclean

BIN := .venv/bin
# The first Python that is new enough; PYTHON=... overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
# Tests start many short JVMs, that end before the code of C2, and the threads of G1, pay: a tenth less.
TEST_JAVA := JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Else each of many processes, and each worker of pytest, compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE
AZURITE := 3.37.0
HELM := v3.18.4
BENCH_LOG ?= spark_repl/demo/bank

help:
	@echo "make demo   set-up, then the main job on a recorded MySQL log"
	@echo "make demo-live  a shop on a MySQL server (SPARK_REPL_MYSQL, or mysqld), the page, and a prompt for statements"
	@echo "make demo-s3  the same on S3 (an emulator); Spark, DuckDB and Polars read the tables"
	@echo "make test   ruff, mypy and all tests (live ones if SPARK_REPL_MYSQL names a server's folder)"
	@echo "make slow   the tests that make test leaves out for their length (half an hour)"
	@echo "make compat  the acceptance tests on Spark 4.0, 4.1, 4.2 and 4.3 (make compat-short: as CI does)"
	@echo "make compat-fresh  the wheel beside each of these pysparks in a new environment, and the README's examples"
	@echo "make yarn   the jobs on YARN: Hadoop's MiniYARNCluster on this machine (five minutes)"
	@echo "make package  wheel and sdist into dist, the same bytes in two builds; the wheel, installed elsewhere, works in silence"
	@echo "make api    the page docs/api, from docstrings"
	@echo "make emulators  Azure's and Google's stores for tests"
	@echo "make charts  helm and the schemas of Kubernetes for tests (needs Go; five minutes)"
	@echo "make soak   the tests that run for long"
	@echo "make mutants  takes guards out one at a time: does a test fail? (an hour)"
	@echo "make scenarios  takes out the line that each of MySQL's scenarios guards: does its test fail?"
	@echo "make bench  what this machine does (BENCH_LOG=folder of binlog files)"
	@echo "make clean  removes what runs leave behind; make distclean the environment too"

# Everything that is missing is named at once, before anything is fetched.
check:
	@missing=0; \
	if [ -z "$(PYTHON)" ]; then missing=1; \
	  echo "Error: no Python 3.11 or newer. Try: install python3 (3.11 or newer) and its venv module, or make PYTHON=/path/to/python3" >&2; \
	elif ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then missing=1; \
	  echo "Error: $(PYTHON) is not Python 3.11 or newer. Try: make PYTHON=/path/to/python3" >&2; \
	elif ! "$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null; then missing=1; \
	  echo "Error: $(PYTHON) has no venv module. Try: install python3-venv" >&2; fi; \
	major=$$("$(JAVA)" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1 || true); \
	case "$$major" in 17|21) ;; *) missing=1; \
	  echo "Error: $${major:+Java $$major found, }Java 17 or 21 is needed. Try: install openjdk-17-jre-headless (or 21), or set JAVA_HOME" >&2;; esac; \
	exit $$missing

# What `make demo` needs, and no more; the tests' tools come with `make setup`.
.venv/.package: pyproject.toml constraints.txt
	@echo "Installing into .venv (a minute or two the first time)"
	[ -x $(BIN)/python ] || "$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]'
	touch $@

# The applier needs no jars.
.venv/.ready: .venv/.package
	$(BIN)/spark-repl setup
	touch $@

.venv/.installed: .venv/.package tests/package/duckdb_delta.txt
	@echo "Installing the tests' tools into .venv"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,readers,browser]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade \
		--target .venv/duckdb_delta -r tests/package/duckdb_delta.txt
	touch $@

# Tests read tables by Spark.
.venv/.jars: .venv/.ready .venv/.installed
	$(BIN)/spark-repl setup --delta
	touch $@

setup: check
	@$(MAKE) --no-print-directory .venv/.jars

# Azure's and Google's stores for tests, which skip what is missing.
.cache/emulators/.installed: .venv/.installed
	mkdir -p .cache/emulators
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[emulators]'
	if command -v npm > /dev/null; then \
	  npm install --silent --no-audit --no-fund --prefix .cache/emulators azurite@$(AZURITE); \
	else echo "No npm: tests of Azure's store are skipped. Try: install nodejs and npm"; fi
	touch $@

emulators: .cache/emulators/.installed

# Tests of the manifest and the chart skip what is missing.
.cache/charts/.installed: .venv/.installed
	mkdir -p .cache/charts
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[charts]'
	if command -v go > /dev/null; then GOBIN="$(CURDIR)/.cache/charts" go install helm.sh/helm/v3/cmd/helm@$(HELM); \
	else echo "No go: tests of the chart are skipped. Try: install golang, or helm"; fi
	touch $@

charts: .cache/charts/.installed

demo: check
	@$(MAKE) --no-print-directory .venv/.ready
	$(BIN)/spark-repl demo

demo-live: check
	@$(MAKE) --no-print-directory .venv/.ready
	$(BIN)/spark-repl demo --live

demo-s3: setup
	$(BIN)/spark-repl setup --s3
	$(BIN)/python -m tests.demo_s3

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(TEST_JAVA) $(BIN)/python -m pytest tests -m "not slow and not soak" -n 3 --dist worksteal --durations=10

slow: setup
	$(TEST_JAVA) $(BIN)/python -m pytest tests -m "slow and not soak" -n 3 --dist worksteal --durations=10

# A pyspark of each release, below .cache/compat.
compat: setup
	$(TEST_JAVA) $(BIN)/python -m tests.compat

compat-short: setup
	$(TEST_JAVA) $(BIN)/python -m tests.compat --short

# Each environment is removed after its run.
compat-fresh: setup
	$(TEST_JAVA) $(BIN)/python -m tests.compat.fresh

# MiniYARNCluster, which Ivy fetches: 80 MB.
yarn: setup
	$(TEST_JAVA) $(BIN)/python -m pytest tests/live/test_yarn.py -m soak -o timeout=0

package: setup
	$(BIN)/python -m tests.package.build dist
	PYTHON="$(PYTHON)" tests/package/check_wheel.sh dist/*.whl

# docs/api, from the docstrings.
api: setup
	$(BIN)/python -m tests.package.api_page

soak: setup
	$(TEST_JAVA) $(BIN)/python -m pytest tests -m soak -o timeout=0
	SPARK_REPL_STRIDE=2 $(BIN)/python -m pytest tests/applier -o timeout=0 -m "not soak" -k "crash_at_any or cut_off or ignore_drop or additive_only"

mutants: setup
	$(BIN)/python -m tests.mutants

scenarios: setup
	$(BIN)/python -m tests.mutants.scenarios

bench: setup
	$(BIN)/spark-repl bench decode $(BENCH_LOG)/*.0*
	$(BIN)/spark-repl bench apply --relay $(BENCH_LOG)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log demo-out
	find spark_repl tests jobs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .cache
