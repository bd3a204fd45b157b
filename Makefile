# Everything runs in .venv, which is built from requirements.lock. A fresh machine needs Python 3.11+ and make.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Override with `make PYTHON=/path/to/python …`.
PYTHON ?=

# An assignment in front of a command would hide a failure of java.sh; two statements do not.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)"; export JAVA_HOME;

# The variable silences a notice on every build: Material for MkDocs is maintained until May 2027.
DOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-zA-Z_-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMP) ## Run a skewed job and a live stream on local Spark, plain and unskewed; writes an HTML page
	$(WITH_JAVA) $(BIN)/unskew demo --out out/demo.html

.PHONY: test
test: lint ## Run the linters, then all tests (core must be covered to 95 %), and those of Spark on Connect
	$(WITH_JAVA) $(BIN)/python -m pytest --cov=src/unskew/core --cov-fail-under=95
	$(WITH_JAVA) UNSKEW_TEST_REMOTE=1 $(BIN)/python -m pytest tests/spark

.PHONY: test-faults
test-faults: $(STAMP) ## Kill, starve and damage live queries; non-zero exit if an answer is wrong (long)
	$(WITH_JAVA) $(BIN)/python -m tests.faults.faults

.PHONY: lint
lint: $(STAMP) ## Check style, format, types, the direction of imports and the docs site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(DOCS) --quiet

.PHONY: docs
docs: $(STAMP) ## Build the docs site into build/site; a warning is an error
	$(DOCS)

.PHONY: format
format: $(STAMP) ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: docs-aggregates
docs-aggregates: $(STAMP) ## Write the tables of stream aggregates in the docs from their registry
	$(BIN)/python scripts/aggregate_table.py

.PHONY: bench
bench: bench-core bench-batch bench-stream bench-locality ## Run every benchmark

.PHONY: bench-core
bench-core: $(STAMP) ## Measure the core against its bars; non-zero exit if one falls short
	$(BIN)/python -m benchmarks.core

.PHONY: bench-batch
bench-batch: $(STAMP) ## Measure the batch operators against stock Spark (long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.batch

.PHONY: bench-stream
bench-stream: $(STAMP) ## Measure the live operator against Spark's own stateful ones (long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.stream

.PHONY: bench-locality
bench-locality: $(STAMP) ## Measure operators in a row on several hosts (root; long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.locality

.PHONY: bench-papers
bench-papers: $(STAMP) ## Reproduce the figures of the papers, or go on where that stopped; writes a page (hours)
	$(WITH_JAVA) $(BIN)/python -m research run --out benchmarks/results/papers
	$(BIN)/python -m research report --out benchmarks/results/papers --docs docs/reproduction.md
	$(BIN)/python -m research.beyond.pages

.PHONY: venv
venv: $(STAMP) ## Create or refresh .venv

.PHONY: lock
lock: $(STAMP) ## Resolve requirements.lock anew from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file requirements.lock

.PHONY: clean
clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) build dist out .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
		.ruff_cache artifacts derby.log metastore_db spark-warehouse
	find src tests benchmarks examples scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Without isolation the build uses the locked hatchling, so nothing unpinned is downloaded.
$(STAMP): requirements.lock
	python="$$(scripts/python.sh $(PYTHON))"; "$$python" -m venv $(VENV) \
		|| { echo "unskew: could not create $(VENV); on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
