# Every target creates what it needs below .venv and never asks for root.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Processes that share the tests; each takes about 2 GiB of memory for its own stores.
WORKERS ?= 2
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Compiled at installation, since some systems keep Python from doing so when a command starts.
ROOMS  := adviser api cli common graph ingest loop model pis
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS)
# Doctests have no marks: where marks choose the tests, the modules of the product need not be read.
MARKED := tests

# Install a set of locks/, each file compared with its SHA-256, then Thoth, editable, so that a change of
# the code needs no new install.
# $(1): set, $(2): size of the download, $(3): size on disk, $(4): options
define install
	@echo "Installing Thoth and locks/$(1).txt into $(VENV), once: about $(2) to download, $(3) on disk."
	@began=$$(date +%s) && \
	$(PIP) install $(4) --no-deps --require-hashes --requirement locks/$(1).txt && \
	$(PIP) install $(4) --no-deps --no-build-isolation --editable . && \
	$(BIN)/python -m compileall -q $(ROOMS) && \
	echo "Installed $$($(PIP) list --format freeze | wc -l) packages into $(VENV) in $$(($$(date +%s) - began)) s."
	@touch $@
endef

# Tests start many programs of this tree: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo night notebooks setup test test-faults test-rest test-all test-bare lint bench screenshots vendor lock release up down clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.embedded ## one question, from nothing: is an upgrade slower?
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh samples/demo.sh

night: $(VENV)/.embedded ## nights of the loop, on real releases of NumPy
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh samples/night.sh

notebooks: $(VENV)/.notebooks ## the notebooks as HTML, run on the samples
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh notebooks/run.sh

setup: $(VENV)/.dev ## everything that developers need, in .venv

test: $(VENV)/.dev ## the tests, on real stores, from nothing
	@echo "Running the tests in $(WORKERS) processes: 8 to 13 minutes on two processors."
	$(PYTEST) -m 'not slow and not faults'

test-faults: $(VENV)/.dev ## the tests that kill processes, fill disks and cut connections
	$(PYTEST) -m faults $(MARKED)

test-rest: $(VENV)/.dev $(VENV)/.notebooks ## what `make test` leaves out: faults, slow tests, more examples, PyTorch and TensorFlow
	@echo "The first run installs PyTorch and TensorFlow, to measure them: 7 GB in ~/.cache/thoth-tests."
	$(PYTEST) --thorough -m 'slow or faults or frameworks or hypothesis' $(MARKED)

test-all: test test-rest ## every test

test-bare: $(VENV)/.dev ## the tests around optional programs, as if none of these were installed
	$(PYTEST) --without-programs -m 'not slow and not faults' $(MARKED)

lint: $(VENV)/.dev ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev ## measure; prints ratios against a named reference of the same run
	$(BIN)/python -m benchmarks

screenshots: $(VENV)/.dev ## pictures of every page in ~/.cache/thoth-screenshots; needs Chromium
	$(BIN)/python -m tests.screenshots $${HOME}/.cache/thoth-screenshots

vendor: ## copy the scripts of pages from their npm packages again
	$(PYTHON) .ci/vendor.py

lock: $(VENV)/.embedded ## write locks/ again, from setup.cfg and constraints.txt
	sh .ci/lock

release: $(VENV)/.dev ## sdist, wheel and list of components in dist/, checked
	sh .ci/release

up: $(VENV)/.embedded ## start the embedded stores
	$(BIN)/thoth up

down: $(VENV)/.embedded ## stop the embedded stores
	$(BIN)/thoth down

clean: ## remove the environment (data stays where `thoth status` says)
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.embedded: setup.cfg locks/embedded.txt | $(VENV)/bin/python
	$(call install,embedded,290 MB,1.0 GB,--quiet)

$(VENV)/.dev: setup.cfg locks/dev.txt | $(VENV)/bin/python
	$(call install,dev,535 MB,2.0 GB)
	@touch $(VENV)/.embedded

$(VENV)/.notebooks: setup.cfg locks/notebooks.txt | $(VENV)/bin/python
	$(call install,notebooks,360 MB,1.2 GB)
	@touch $(VENV)/.embedded
