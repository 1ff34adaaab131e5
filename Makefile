# The same few commands for people and for CI. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
# One more than there are processors: tests with servers mostly wait (tests/scheduler.py).
TEST_WORKERS ?= 3
LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --cache-dir .cache/import-linter
TYPES = $(BIN)/mypy
PYTEST = $(BIN)/python -m pytest -o cache_dir=.cache/pytest
IN_PARALLEL = -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
# The tier of tests that lands a change; tests/README.md has the rule.
QUICK = -m "not deep" --hypothesis-profile=quick
CHECKS = $(PYTHON) scripts/bootstrap.py complete -- sh -c '$(LINT) && $(TYPES)'

# Hundreds of processes import the same sources: each compiles them again where Python may not keep what it made.
export PYTHONDONTWRITEBYTECODE :=

# One recipe at a time, and no recipe outlives make: see scripts/bootstrap.py and stack/process/reaper.py.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup environment demo test test-all coverage lint types unit bench chaos pictures sbom audit wheel docs docs-serve lock clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with everything in it, compile the data plane, fetch the servers' jars (needs Python 3.11+ and the package registry)
	@$(PYTHON) scripts/bootstrap.py complete

environment:
	@$(PYTHON) scripts/bootstrap.py

# It compiles and fetches itself what is missing, while its servers start.
demo: environment ## the whole loop on real servers, ending in a report; KEEP=1 leaves it running, PORT_OFFSET=n moves its ports
	@exec $(BIN)/headrace demo $(if $(KEEP),--keep,) $(if $(PORT_OFFSET),--port-offset $(PORT_OFFSET),)

test: ## every check, and the tests that a change needs before it lands: what CI runs
	@$(CHECKS)
	@exec $(PYTEST) $(IN_PARALLEL) $(QUICK) $(PYTEST_ARGS)

test-all: ## every check and test, for a release; TEST_WORKERS processes at a time
	@$(CHECKS)
	@exec $(PYTEST) $(IN_PARALLEL) $(PYTEST_ARGS)

coverage: setup ## every test, traced: which lines they run, for twice the processor time
	@$(PYTEST) $(IN_PARALLEL) --cov --cov-report= $(PYTEST_ARGS)
	@$(BIN)/coverage report

lint: environment ## style and import rules
	@$(LINT)

types: environment ## mypy --strict
	@$(TYPES)

unit: environment ## the tests of `make test` that need no server
	@exec $(PYTEST) -m "not deep and not servers" --hypothesis-profile=quick $(PYTEST_ARGS)

bench: setup ## list the measurements behind the figures in docs/; ONLY="name ..." runs them
	@exec $(BIN)/python -m bench $(ONLY)

chaos: setup ## faults over a real service, then a look at every record; MINUTES=20, SEED=n repeats a schedule
	@MINUTES=$(or $(MINUTES),20) SEED=$(SEED) exec $(BIN)/python -m bench service_chaos

pictures: setup ## take the pictures of docs/pictures/ again, on real servers; AT=host:port of a service that runs
	@AT=$(AT) exec $(BIN)/python -m bench pages_pictures

sbom: setup ## list every package of an installation, with licences, in dist/ (CycloneDX and a table)
	@rm -rf .cache/sbom && $(PYTHON) -m venv --without-pip .cache/sbom && mkdir -p dist
	@$(PYTHON) -m pip --python .cache/sbom/bin/python install --quiet --no-deps --require-hashes -r requirements/run.txt
	@$(BIN)/cyclonedx-py environment .cache/sbom --pyproject pyproject.toml --of JSON -o dist/headrace.cdx.json
	@$(BIN)/pip-licenses --python .cache/sbom/bin/python --with-system --format=markdown --with-urls --output-file dist/licences.md

# The advisories are at the index of PyPI: a mirror of packages does not have them, and then this fails.
audit: setup ## look up known weaknesses of every package that is installed with Headrace
	@for set in run all; do $(BIN)/uv tool run pip-audit==2.10.1 --strict --disable-pip --require-hashes -r requirements/$$set.txt || exit 1; done

wheel: setup ## build into dist/ a wheel with the compiled data plane, and a pure one
	@$(BIN)/hatchling build -t wheel -d dist && HEADRACE_WHEEL=pure $(BIN)/hatchling build -t wheel -d dist

docs: environment ## build the documentation into site/, strictly
	@$(BIN)/headrace config reference > docs/configuration.md
	@$(BIN)/headrace config reference --rest > docs/rest.md
	@$(BIN)/headrace config reference --metrics > docs/metrics.md
	@$(BIN)/headrace config reference --cli > docs/cli.md
	@$(BIN)/headrace config reference --errors > docs/errors.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

docs-serve: docs ## look at the documentation in a browser
	@NO_MKDOCS_2_WARNING=1 exec $(BIN)/mkdocs serve

lock: environment ## renew the hash-locked requirements and the sums of the server jars
	@for set in run service all dev; do \
	  case $$set in run) extras=;; service) extras="--extra assigner --extra monitor --extra pinot";; all) extras="--extra all";; dev) extras="--extra all --group dev --group docs";; esac; \
	  $(BIN)/uv pip compile pyproject.toml $$extras --universal --python-version 3.11 --generate-hashes \
	    --no-annotate --no-header --quiet $(LOCK_ARGS) -o requirements/$$set.txt || exit 1; done
	@$(BIN)/uv pip compile --group superset --universal --python-version 3.11 --generate-hashes \
	    --no-annotate --no-header --quiet $(LOCK_ARGS) -o requirements/superset.txt
	@$(BIN)/python -m stack.jars lock

clean: ## remove what make has made, but not the data of a running stack
	@rm -rf .venv .cache site report report.html
