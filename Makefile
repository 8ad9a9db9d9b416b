PYTHON ?= python3

BIN := .venv/bin
INSTALLED := .venv/installed
INSTALLED_FOR_TESTS := .venv/installed-for-tests
PIP_INSTALL := $(BIN)/pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt
# accelerate warns about each of these that it has to choose itself; --quiet: no traceback of its own on top of an error
LAUNCH := $(BIN)/accelerate launch --quiet --num_processes 1 --num_machines 1 \
    --mixed_precision no --dynamo_backend no

.PHONY: help play wordle test lint

help: ## list what make can do
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

play: $(INSTALLED) ## play Wordle against the agent that comes with textrl
	@$(BIN)/textrl play

wordle: $(INSTALLED) ## train an agent that plays Wordle and evaluate it
	@$(LAUNCH) recipes/train.py --task wordle --resume
	@echo
	@echo "The agent is in runs/wordle. Play against it:"
	@echo "  $(BIN)/textrl play runs/wordle   # in the browser: $(BIN)/pip install -e '.[play]', then with --web"
	@echo "Next you could try"
	@echo "  $(BIN)/textrl evaluate runs/wordle --beta 8   # trust its values less"
	@echo "  $(BIN)/textrl train --task wordle --algo bc --output runs/bc   # imitation only"
	@echo "  $(BIN)/textrl evaluate runs/wordle --against runs/bc   # which is better?"

test: lint ## check style and types, then run the tests
	@$(BIN)/pytest -q --numprocesses auto --dist loadfile

lint: $(INSTALLED_FOR_TESTS) ## check style and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: textrl needs Python 3.11 or newer, but $(PYTHON) is not: try make PYTHON=python3.12" >&2; \
	    exit 2; }
	@echo "installing textrl and what it needs into .venv (once, a few minutes)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@$(PIP_INSTALL) torch
	@$(PIP_INSTALL) --editable .
	@touch $@

$(INSTALLED_FOR_TESTS): $(INSTALLED)
	@echo "installing what the tests need"
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@
