# Each target makes its own .venv; nothing needs to be prepared by hand. CONSTRAINTS=constraints.txt takes exact versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test quick check lint docs clean browser dist matrix fuzz simulate-faults site constraints mutants

help:
	@echo "make demo   the whole way on real models and a real clip, ends in a report; DEMO=--training for the recipes"
	@echo "make test   all tests, doctests and the ring contracts"
	@echo "make quick  the tests that take a second or less each"
	@echo "make check  format, lint, types, contracts, tests"
	@echo "make dist   source archive and wheel, into dist/"
	@echo "make matrix the wheel on every Python here, newest and lowest versions, every verb"
	@echo "make fuzz   damaged inputs through every verb, kills at every step; CASE=1234 repeats one"
	@echo "make simulate-faults   people, two servers, commands; kills, power cuts, full disks, clocks; SEEDS=1000"
	@echo "make mutants   small faults put into metrics and scoring: do the tests find them? 1,000 of them, resumable"
	@echo "make site   the documentation as a site, into site/; it needs no server and no network"
	@echo "make constraints   constraints.txt: the versions installed here, for CONSTRAINTS=constraints.txt"
	@echo "make docs   regenerate the CLI reference and results.schema.json"

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[demo]"
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[dev]"
	touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/strobe demo $(DEMO)

browser: $(VENV)/.dev
	@$(BIN)/python scripts/get_browser.py

test: $(VENV)/.dev browser
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto --dist worksteal

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto -m "not slow and not browser"

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# The short form, one environment, is among the tests (tests/test_packaging.py). MATRIX="--torch 3.12" adds the demo there.
dist: $(VENV)/.dev
	$(BIN)/python scripts/matrix.py --wheel dist

matrix: $(VENV)/.dev
	$(BIN)/python scripts/matrix.py $(MATRIX)

# 1,000 cases and every kill; FUZZ="--cases 10000" for more. A stopped run goes on; a short one is tests/test_fuzz.py.
fuzz: $(VENV)/.dev
	$(BIN)/python -m fuzz $(if $(CASE),--case $(CASE)) $(FUZZ)

# SEEDS=1000 for more; SIMULATE="--seed 17" replays one seed. 20 seeds are in tests/test_simulate_faults.py.
simulate-faults: $(VENV)/.dev
	$(BIN)/python -m fuzz.simulate $(if $(SEEDS),--seeds $(SEEDS)) $(SIMULATE)

# A seeded sample of 1,000; MUTANTS="--sample 150 --seed 1" for another. A stopped run goes on. docs/mutants.md explains what survives.
mutants: $(VENV)/.dev
	$(BIN)/python scripts/mutants.py $(MUTANTS)

constraints: $(VENV)/.dev
	$(BIN)/python scripts/make_constraints.py

docs: $(VENV)/.dev
	$(BIN)/python scripts/make_cli_reference.py
	$(BIN)/python scripts/make_results_schema.py

site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist site src/*.egg-info
