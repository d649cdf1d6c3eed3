# Every target creates what it needs below .venv and never asks for root.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Processes that share the tests; each takes about 2 GiB of memory for its own stores.
WORKERS ?= 2
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo setup test lint bench up down clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.embedded ## the main job, from nothing: samples in, knowledge out
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh samples/demo.sh

setup: $(VENV)/.dev ## everything that developers need, in .venv

test: $(VENV)/.dev ## all tests, on real stores, from nothing
	$(BIN)/python -m pytest --numprocesses $(WORKERS)

lint: $(VENV)/.dev ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev ## measure; prints ratios against a named reference of the same run
	$(BIN)/python -m benchmarks

up: $(VENV)/.embedded ## start the embedded stores
	$(BIN)/thoth up

down: $(VENV)/.embedded ## stop the embedded stores
	$(BIN)/thoth down

clean: ## remove the environment (data stays where `thoth status` says)
	rm -rf $(VENV) build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Installed editable, so that a change of the code needs no new install.
$(VENV)/.embedded: setup.cfg constraints.txt | $(VENV)/bin/python
	@echo "Installing into $(VENV) (once) …"
	@$(PIP) --editable '.[embedded]'
	@touch $@

$(VENV)/.dev: setup.cfg constraints.txt | $(VENV)/bin/python
	@echo "Installing into $(VENV) (once) …"
	@$(PIP) --editable '.[embedded,server,ray,kubernetes,dev]'
	@touch $@ $(VENV)/.embedded
