# Everything runs in .venv, which is built from requirements.lock. A new machine needs Python 3.11+ and make; what
# runs Spark also needs Java 17+, which scripts/java.sh finds or installs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Override with `make PYTHON=/path/to/python …`.
PYTHON ?=

# The versions of Spark for test-versions and bench-versions; empty for all.
SPARKS ?=

# For test-lowest: the oldest Python that pyproject.toml declares, and what its old packages warn of.
OLDEST_PYTHON ?= python3.10
LOWEST := build/lowest
WITHOUT_METIS = --ignore=tests/core/chains
OLD_WARNINGS = -Wignore::DeprecationWarning -Wignore::FutureWarning

# An assignment in front of a command would hide a failure of java.sh; two statements do not.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)"; export JAVA_HOME;

# With this, a test that starts Spark without being marked `spark` fails on every machine, not only on those without Java.
WITHOUT_JAVA = JAVA_HOME=/nonexistent

PYTEST = $(BIN)/python -m pytest

# Spark gives a new Python worker ten seconds to connect, which no setting changes: a busy machine takes longer.
# Reruns are for Spark tests only: with several workers, they cost each test a wait.
SPARK_TESTS = $(PYTEST) --durations=12 --reruns=3 --only-rerun="failed to connect back|CANNOT_OPEN_SOCKET"

JOINS = $(wildcard tests/spark/test_*join*.py tests/spark/test_over*.py tests/spark/test_window*.py \
	tests/spark/test_kept*.py)
SHARED_SPARK = spark and not processes and not papers and not notebook

# One worker per core; the tests of a file share a worker, and so its fixtures. Spark tests run in one process instead.
# None of these takes a minute: one that hangs is to be reported long before CI gives up.
UNIT_TESTS = $(PYTEST) -m "not spark and not hosts" --numprocesses auto --dist loadfile \
	--timeout=240 -o faulthandler_timeout=300 --max-worker-restart=0

# Coverage is judged here, and measured only here: it makes tests half as fast.
CORE = tests/core src/unskew/core

# Each phase is a target of its own; the script prints what each took.
PHASES = MAKE="$(MAKE)" scripts/phases.sh $@

# The versions that pyproject.toml declares, but for the oldest: PySpark of the lock file needs a newer one.
PYTHONS := 3.11 3.12 3.13

# The variable silences a notice on every build: Material for MkDocs is maintained until May 2027.
DOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-zA-Z_-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMP) ## Run a skewed join, a slow function and a live stream, plain, tuned and unskewed; writes an HTML page
	$(WITH_JAVA) $(BIN)/unskew demo --out out/demo.html

.PHONY: check
check: $(STAMP) ## Run the static checks and every test that needs no Spark (2 minutes, no Java)
	@$(PHASES) lint test-unit

.PHONY: test
test: $(STAMP) ## Run `check` with coverage, then the Spark tests, and on Spark Connect those that may differ
	@$(PHASES) lint test-coverage test-rest test-groups,test-connect,test-processes,test-streams,test-joins

.PHONY: test-all
test-all: $(STAMP) ## Run `test`, then every case, everyday jobs, hosts, the notebook, papers, faults and all Pythons (hours)
	@$(PHASES) test test-cases test-everyday test-hosts test-notebook test-papers test-faults test-versions test-lowest test-pythons

.PHONY: lint
lint: $(STAMP) ## Check style, format, types, the direction of imports and the docs site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(DOCS) --quiet

.PHONY: test-unit
test-unit: $(STAMP) ## Run the tests that need no Spark
	$(WITHOUT_JAVA) $(UNIT_TESTS)

.PHONY: test-coverage
test-coverage: $(STAMP) ## Run the tests of the core, which must cover 95 % of it
	$(WITHOUT_JAVA) $(UNIT_TESTS) --cov=src/unskew/core --cov-fail-under=95 $(CORE)

.PHONY: test-rest
test-rest: $(STAMP) ## Run the other tests that need no Spark
	$(WITHOUT_JAVA) $(UNIT_TESTS) $(addprefix --ignore=,$(CORE))

.PHONY: test-joins
test-joins: $(STAMP) ## Run the tests of joins, windows and kept plans on one Spark session
	$(WITH_JAVA) $(SPARK_TESTS) $(JOINS) -m "$(SHARED_SPARK)"

.PHONY: test-groups
test-groups: $(STAMP) ## Run the tests of the other batch operators on one Spark session
	$(WITH_JAVA) $(SPARK_TESTS) tests/spark $(addprefix --ignore=,$(JOINS)) -m "$(SHARED_SPARK)"

.PHONY: test-streams
test-streams: $(STAMP) ## Run the other tests that share a Spark session: streams, commands, pages of the docs
	$(WITH_JAVA) $(SPARK_TESTS) --ignore=tests/spark -m "$(SHARED_SPARK)"

.PHONY: test-processes
test-processes: $(STAMP) ## Run the tests that start a Spark of their own
	$(WITH_JAVA) $(SPARK_TESTS) -m "processes and not hosts and not faults and not everyday"

.PHONY: test-connect
test-connect: $(STAMP) ## Run the tests that may differ on Spark Connect there
	$(WITH_JAVA) UNSKEW_TEST_REMOTE=1 $(SPARK_TESTS) tests -m "connect and not classic"

.PHONY: test-cases
test-cases: $(STAMP) ## Run the tests on Spark and on Spark Connect with every combination of their cases
	$(WITH_JAVA) UNSKEW_TEST_ALL=1 $(SPARK_TESTS) -m "spark and not (hosts or papers or notebook or faults or everyday)"
	$(WITH_JAVA) UNSKEW_TEST_ALL=1 UNSKEW_TEST_REMOTE=1 $(SPARK_TESTS) tests -m "connect and not classic"
	UNSKEW_TEST_ALL=1 $(PYTEST) tests/report/watch/test_bars.py

.PHONY: test-everyday
test-everyday: $(STAMP) ## Run the everyday jobs of bench-harm, tiny: equal rows, and no more shuffles than plain Spark
	$(WITH_JAVA) $(SPARK_TESTS) -m everyday

.PHONY: test-hosts
test-hosts: $(STAMP) ## Run the tests that set up several hosts on this machine (root)
	$(WITH_JAVA) $(SPARK_TESTS) tests -m hosts

.PHONY: test-notebook
test-notebook: $(STAMP) ## Run the notebooks of the examples
	$(WITH_JAVA) $(SPARK_TESTS) tests -m notebook

.PHONY: test-papers
test-papers: $(STAMP) ## Compute every figure of the papers with small parameters; writes to build/papers
	$(WITH_JAVA) $(SPARK_TESTS) -m papers
	$(WITH_JAVA) $(BIN)/python -m research run --quick --again --out build/papers
	$(BIN)/python -m research report --out build/papers

.PHONY: test-faults
test-faults: $(STAMP) ## Kill, starve and damage live queries, compare 240 random ones with Spark's own (long)
	$(WITH_JAVA) UNSKEW_TEST_ALL=1 $(SPARK_TESTS) -m faults
	$(WITH_JAVA) UNSKEW_TEST_ALL=1 $(SPARK_TESTS) tests/streaming/live/test_like_native.py
	$(WITH_JAVA) $(BIN)/python -m tests.faults.faults

.PHONY: test-versions
test-versions: ## Run the tests of batch jobs and streams on Spark 3.5 to 4.3, and Connect across versions; print a table (hours)
	$(WITH_JAVA) "$$(scripts/python.sh $(PYTHON))" scripts/test_versions.py $(SPARKS)
	if [ -z "$(SPARKS)" ]; then $(WITH_JAVA) "$$(scripts/python.sh $(PYTHON))" scripts/test_versions.py --connect; fi

.PHONY: test-lowest
test-lowest: $(LOWEST)/.installed ## Run the core and every batch operator on Python 3.10 with the oldest supported packages
	$(WITHOUT_JAVA) PYTHONPATH=src:. $(LOWEST)/bin/python -m pytest tests/core $(WITHOUT_METIS) -m "not spark" $(OLD_WARNINGS)
	$(WITH_JAVA) PYTHONPATH=src:. PYSPARK_PYTHON="$(CURDIR)/$(LOWEST)/bin/python" $(LOWEST)/bin/python scripts/smoke_version.py

$(LOWEST)/.installed: requirements/lowest.lock
	$(OLDEST_PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/lowest.lock
	touch $@

.PHONY: smoke-versions
smoke-versions: ## Run every operator once on Spark 3.5 and 4.0, which the other tests do not use
	$(WITH_JAVA) "$$(scripts/python.sh $(PYTHON))" scripts/test_versions.py 3.5 4.0 --only smoke --no-record

.PHONY: docs-versions
docs-versions: ## Write the tables of Spark versions in the docs and README from the record of test-versions
	"$$(scripts/python.sh $(PYTHON))" scripts/test_versions.py --docs

.PHONY: test-pythons
test-pythons: ## Run `test` on every declared Python that is installed, each in its own environment (long)
	for version in $(PYTHONS); do \
		if command -v "python$$version" >/dev/null; then \
			$(MAKE) --no-print-directory VENV="build/python$$version" PYTHON="python$$version" test; \
		else \
			echo "python$$version is not installed: skipped"; \
		fi; \
	done

.PHONY: dist
dist: $(STAMP) ## Build the wheel and the source distribution into dist
	rm -rf dist
	$(BIN)/python -m hatchling build

.PHONY: docs
docs: $(STAMP) ## Build the docs site into build/site; a warning is an error
	$(DOCS)

.PHONY: docs-planners
docs-planners: $(STAMP) ## Write the tables of planners in the docs from their declarations
	$(BIN)/python scripts/planner_docs.py

.PHONY: format
format: $(STAMP) ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: docs-aggregates
docs-aggregates: $(STAMP) ## Write the tables of stream aggregates in the docs from their registry
	$(BIN)/python scripts/aggregate_table.py

.PHONY: docs-numbers
docs-numbers: $(STAMP) ## Write the measured numbers in the README and the docs from the committed records
	$(BIN)/python -m scripts.recorded_numbers

.PHONY: docs-benchmarks
docs-benchmarks: $(STAMP) ## Write the page of benchmarks and its pictures from the committed records
	$(BIN)/python -m scripts.benchmark_page

.PHONY: docs-llms
docs-llms: $(STAMP) ## Write docs/llms.txt from the pages of the docs
	$(BIN)/python -m scripts.llms

.PHONY: notebooks
notebooks: $(STAMP) ## Run the notebooks of the examples, save their outputs, and write them as pages of the docs
	$(WITH_JAVA) $(BIN)/python -m examples.notebooks

.PHONY: screenshots
screenshots: $(STAMP) ## Take the screenshots of the docs again (needs Chromium)
	$(WITH_JAVA) $(BIN)/python -m scripts.screenshots

.PHONY: bench
bench: bench-core bench-batch bench-harm bench-split bench-stream bench-locality ## Run every benchmark

.PHONY: bench-core
bench-core: $(STAMP) ## Measure the core against its bars; non-zero exit if one falls short
	$(BIN)/python -m benchmarks.core

.PHONY: bench-batch
bench-batch: $(STAMP) ## Measure the batch operators against stock Spark (long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.batch

.PHONY: bench-harm
bench-harm: $(STAMP) ## Run everyday jobs plain and unskewed, continuing a stopped run; fails if one is worse (long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.harm --both

.PHONY: docs-harm
docs-harm: $(STAMP) ## Write the table of everyday jobs in the docs from the record of bench-harm
	$(BIN)/python -m benchmarks.harm --docs

.PHONY: docs-split
docs-split: $(STAMP) ## Write the tables of split hot keys in the docs from the records of bench-split
	$(BIN)/python -m benchmarks.split_docs

.PHONY: bench-split
bench-split: $(STAMP) ## Measure split hot keys against Spark, AQE and salting (long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.split

.PHONY: bench-stream
bench-stream: $(STAMP) ## Measure the live operator against Spark's own stateful ones (long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.stream

.PHONY: bench-soak
bench-soak: $(STAMP) ## Run 2 000 batches with drifting keys, changes of scale and 50 kills: nothing may grow (hours)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.stream_soak

.PHONY: bench-locality
bench-locality: $(STAMP) ## Measure chained operators on several hosts (root; long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.locality

.PHONY: bench-versions
bench-versions: $(STAMP) ## Measure unskew beside plain Spark on Spark 3.5 to 4.3, each in its own environment (long)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.versions $(SPARKS)

.PHONY: bench-papers
bench-papers: $(STAMP) ## Reproduce the figures of the papers, continuing a stopped run; writes a page (hours)
	$(WITH_JAVA) $(BIN)/python -m research run --out benchmarks/results/papers
	$(BIN)/python -m research report --out benchmarks/results/papers --docs docs/reproduction.md
	$(BIN)/python -m research.beyond.pages

.PHONY: venv
venv: $(STAMP) ## Create or refresh .venv

.PHONY: lock
lock: $(STAMP) ## Update requirements.lock after a change of pyproject.toml; UPGRADE=--upgrade takes the newest of all
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 $(UPGRADE) \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml requirements/lowest.in --extra spark \
		--resolution lowest-direct --python-version 3.10 \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file requirements/lowest.lock
	for lock in requirements/spark-*.lock; do \
		spark="$$(grep '^pyspark==' "$$lock")"; \
		sed "s/^pyspark==.*/$$spark/" requirements.lock >"$$lock.new" && mv "$$lock.new" "$$lock"; \
	done

.PHONY: clean
clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) build dist out .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
		.ruff_cache artifacts derby.log metastore_db spark-warehouse
	find src tests research benchmarks examples scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Without isolation the build uses the locked hatchling, so nothing unpinned is downloaded.
$(STAMP): requirements.lock
	python="$$(scripts/python.sh $(PYTHON))"; "$$python" -m venv $(VENV) \
		|| { echo "unskew: could not create $(VENV); on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
