# Every target first does what is missing for it; what is done is not done again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
NODE := tools/node/node_modules
SOURCES := $(shell find nursery storage rpc tayho sql tests tools -path tools/node -prune -o \
	\( -name '*.py' -o -name '*.sql' -o -name '*.toml' \) -print)
# flake8-async reads slowly and says nothing of code without async.
ASYNC_SOURCES := $(shell grep -rlE --include='*.py' '^ *async ' nursery storage rpc tayho tools)
# Most tests wait for servers more than they compute.
WORKERS := 3
SOAK_SCHEDULES := 2000
FAST := $(wildcard tests/test_tidy.py tests/kernel tests/nursery tests/custody tests/config tests/observability tests/rules tests/deploy) \
	$(filter-out %/test_cancellation.py %/test_endpoint_faults.py %/test_ask_many.py %/test_schemas.py %/test_matrix.py %/test_liars.py \
	%/test_storms.py %/test_pool_endurance.py %/test_heads_on_nodes.py %/test_pool.py %/test_real_node.py %/test_proofs_real_node.py %/test_proven.py %/test_proofs.py, \
	$(wildcard tests/rpc/test_*.py))
LINT_SETTINGS := pyproject.toml .flake8 .importlinter .squawk.toml

.PHONY: help setup demo test test-fast image-test soak lint contracts lock clean

help:
	@echo 'make demo       the whole protocol on a local chain, a relayer killed on the way'
	@echo 'make test       lint and the whole suite'
	@echo 'make test-fast  the tests that need no service, under a minute'
	@echo 'make image-test builds the container image and runs it, as root, in a few minutes'
	@echo 'make soak       thousands of random schedules of work and faults, for an hour or so'
	@echo 'make lint       every rule of architecture and style'
	@echo 'make setup      install what the project needs, into .venv and tools/node'
	@echo 'make contracts  write tayho/contracts from the faces of the contexts'
	@echo 'make lock       resolve the locked dependencies anew'
	@echo 'make clean      remove everything that make made'

setup: .venv/installed $(NODE)/installed

.venv/installed: pyproject.toml requirements/dev.lock requirements/build.lock tools/setup/system.sh tools/setup/venv.sh
	@bash tools/setup/system.sh
	@echo 'setup: Python packages into .venv' >&2
	@bash tools/setup/venv.sh
	@touch $@

$(NODE)/installed: tools/node/package.json tools/node/package-lock.json | .venv/installed
	@echo 'setup: Node packages into tools/node' >&2
	@cd tools/node && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null
	@touch $@

demo: setup
	@$(BIN)/tayho demo --kill

# The database tests run once more on the oldest PostgreSQL that is supported.
test: lint
	@bash tools/setup/system.sh tests
	@TAYHO_TEST_POSTGRES=16 $(BIN)/pytest -q -n $(WORKERS) -k "not delivery and not redis" tests/storage tests/coordination tests/transactions
	@$(BIN)/pytest -q -n $(WORKERS)

test-fast: setup
	@$(BIN)/pytest -q -m 'not services and not crash' $(FAST)

# Not part of `make test`: it needs root and debootstrap, and takes minutes.
image-test: setup
	@bash tools/setup/system.sh image
	@bash tools/image/build.sh >/dev/null
	@$(BIN)/pytest -q tests/image/on_the_image.py

# A failing schedule is printed with the word that runs it again (tests/simulation/*/test_*_machine.py).
soak: setup
	@seed=$${TAYHO_SOAK_SEED:-$$(date +%s)}; \
	echo "soak: $(SOAK_SCHEDULES) schedules from TAYHO_SOAK_SEED=$$seed"; \
	TAYHO_SOAK_SEED=$$seed TAYHO_SOAK_SCHEDULES=$(SOAK_SCHEDULES) \
		$(BIN)/pytest -q -rP -n $(WORKERS) tests/simulation tests/crash/test_storm.py

lint: .venv/linted .venv/async-checked

.venv/linted: .venv/installed $(NODE)/installed $(SOURCES) $(LINT_SETTINGS)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo 'mend with: .venv/bin/ruff format' >&2; exit 1; }
	@$(BIN)/python -m tools.rules
	@$(BIN)/lint-imports --no-logo --cache-dir .venv/import-linter >.venv/imports.txt || { cat .venv/imports.txt; exit 1; }
	@$(BIN)/python -m tools.generate_contracts --check
	@$(BIN)/python -m tools.lint_migrations
	@$(NODE)/.bin/pyright >.venv/types.txt || { cat .venv/types.txt; exit 1; }
	@touch $@

# Only what changed since the last time.
.venv/async-checked: .flake8 $(ASYNC_SOURCES) | .venv/installed
	@$(BIN)/flake8 $(if $(filter .flake8,$?),$(ASYNC_SOURCES),$(filter %.py,$?))
	@touch $@

contracts: setup
	@$(BIN)/python -m tools.generate_contracts

lock: .venv/installed
	@export UV_CUSTOM_COMPILE_COMMAND='make lock'; \
	compile="$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11"; \
	$$compile requirements/build.in --output-file requirements/build.lock; \
	$$compile pyproject.toml --output-file requirements/runtime.lock; \
	$$compile pyproject.toml requirements/build.in --extra dev --constraints requirements/runtime.lock \
		--output-file requirements/dev.lock

clean:
	@rm -rf .venv $(NODE) .stack .image .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
