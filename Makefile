# Commands for developers and CI. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
# One more than the number of processors: tests with servers mostly wait (tests/scheduler.py).
TEST_WORKERS ?= 3
LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --cache-dir .cache/import-linter && $(BIN)/python scripts/voice.py --max 25
# Not in pyproject.toml: mypyc reads it too, and compiles nothing with several processes.
TYPES = $(BIN)/mypy --num-workers 2
PYTEST = $(BIN)/python -m pytest -o cache_dir=.cache/pytest
IN_PARALLEL = -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
# The tier of tests required for a change; see tests/README.md.
QUICK = -m "not deep" --hypothesis-profile=quick
CHECKS = $(PYTHON) scripts/bootstrap.py complete -- sh -c '$(LINT) && $(TYPES)'

# Hundreds of processes import the same sources; each would compile them again if Python could not cache bytecode.
export PYTHONDONTWRITEBYTECODE :=

# Recipes run one at a time, and none outlives make: see scripts/bootstrap.py and stack/process/reaper.py.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup environment demo test test-all compatibility coverage lint types unit bench chaos pictures notebooks sbom audit wheel docs docs-serve lock clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv, compile the data plane, fetch the servers' jars (requires Python 3.11+ and the package registry)
	@$(PYTHON) scripts/bootstrap.py complete

environment:
	@$(PYTHON) scripts/bootstrap.py

# Compiles and fetches whatever is missing while its servers start.
demo: environment ## run the demo on real servers and write a report; KEEP=1 leaves it running, PORT_OFFSET=n shifts its ports
	@exec $(BIN)/headrace-dev demo $(if $(KEEP),--keep,) $(if $(PORT_OFFSET),--port-offset $(PORT_OFFSET),)

test: ## run all checks and the tests required for a change, as CI does
	@$(CHECKS)
	@exec $(PYTEST) $(IN_PARALLEL) $(QUICK) $(PYTEST_ARGS)

# Deep tests wait more: one process more, unless the caller has set TEST_WORKERS.
test-all: TEST_WORKERS := $(if $(filter file,$(origin TEST_WORKERS)),4,$(TEST_WORKERS))
test-all: ## run all checks and all tests, for a release, in 4 processes or TEST_WORKERS
	@$(CHECKS)
	@exec $(PYTEST) $(IN_PARALLEL) $(PYTEST_ARGS)

compatibility: setup ## test copying with other releases of Kafka; SETS="kafka-2.8 kafka-4.4" chooses some
	@exec $(BIN)/python -m tests.compatibility $(SETS)

coverage: setup ## run all tests with line coverage, in twice the CPU time
	@$(PYTEST) $(IN_PARALLEL) --cov --cov-report= $(PYTEST_ARGS)
	@$(BIN)/coverage report

lint: environment ## check style, import rules and prose
	@$(LINT)

types: environment ## check types with mypy --strict
	@$(TYPES)

unit: environment ## run the tests of `make test` that need no servers
	@exec $(PYTEST) -m "not deep and not servers" --hypothesis-profile=quick $(PYTEST_ARGS)

bench: setup ## list the benchmarks behind the figures in docs/; ONLY="name ..." runs them
	@exec $(BIN)/python -m bench $(ONLY)

chaos: setup ## inject faults into a real service and verify all records; MINUTES=20, SEED=n repeats a schedule, STORE=kafka without ZooKeeper, RUNS=20 for a table of short runs
	@MINUTES=$(MINUTES) SEED=$(SEED) STORE=$(STORE) RUNS=$(RUNS) exec $(BIN)/python -m bench service_chaos

pictures: setup ## retake the screenshots in docs/pictures/ on real servers; AT=host:port uses a running service
	@AT=$(AT) exec $(BIN)/python -m bench pages_pictures

notebooks: setup ## run the notebooks and store their outputs, which the documentation shows; NOTEBOOKS="02 05" runs some
	@NOTEBOOKS="$(NOTEBOOKS)" exec $(BIN)/python -m bench pages_notebooks

sbom: setup ## write the packages of an installation and their licences to dist/ (CycloneDX and a table)
	@rm -rf .cache/sbom && $(PYTHON) -m venv --without-pip .cache/sbom && mkdir -p dist
	@$(PYTHON) -m pip --python .cache/sbom/bin/python install --quiet --no-deps --require-hashes -r requirements/run.txt
	@$(BIN)/cyclonedx-py environment .cache/sbom --pyproject pyproject.toml --of JSON -o dist/headrace.cdx.json
	@$(BIN)/pip-licenses --python .cache/sbom/bin/python --with-system --format=markdown --with-urls --output-file dist/licences.md

# The advisories come from the index of PyPI. A package mirror lacks them; then this fails.
audit: setup ## check the locked packages for known vulnerabilities
	@for set in run all; do $(BIN)/uv tool run pip-audit==2.10.1 --strict --disable-pip --require-hashes -r requirements/$$set.txt || exit 1; done

wheel: setup ## build wheels in dist/: with the compiled data plane, pure, and of headrace-dev
	@$(BIN)/hatchling build -t wheel -d dist && HEADRACE_WHEEL=pure $(BIN)/hatchling build -t wheel -d dist
	@cd headrace_dev && ../$(BIN)/hatchling build -t wheel -d ../dist

docs: environment ## build the documentation in site/ in strict mode
	@for page in configuration rest metrics cli errors datastream-fields; do $(BIN)/headrace-dev reference $$page > docs/$$page.md || exit 1; done
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

docs-serve: docs ## serve the documentation locally
	@NO_MKDOCS_2_WARNING=1 exec $(BIN)/mkdocs serve

lock: environment ## renew the locked requirements and the checksums of the server jars
	@for set in run service all dev; do \
	  case $$set in run) extras=;; service) extras="--extra assigner --extra monitor --extra oidc --extra pinot --extra zookeeper";; all) extras="headrace_dev/pyproject.toml --extra all";; dev) extras="headrace_dev/pyproject.toml --extra all --group dev --group docs";; esac; \
	  $(BIN)/uv pip compile pyproject.toml $$extras --no-emit-package headrace --universal --python-version 3.11 --generate-hashes \
	    --no-annotate --no-header --quiet $(LOCK_ARGS) -o requirements/$$set.txt || exit 1; done
	@$(BIN)/uv pip compile --group superset --universal --python-version 3.11 --generate-hashes \
	    --no-annotate --no-header --quiet $(LOCK_ARGS) -o requirements/superset.txt
	@$(BIN)/python -m stack.jars lock

clean: ## remove generated files, except the data of a running stack
	@rm -rf .venv .cache site report report.html
