# Each target makes .venv if needed. CONSTRAINTS=constraints.txt installs exact versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test quick check lint docs clean browser sizes dist matrix fuzz simulate-faults site constraints mutants bench servers server-mlserver server-transformers test-servers without-annex

help:
	@echo "make demo   run real models on a real clip and make a report, without PyTorch; DEMO=--training trains, with it"
	@echo "make test   run all tests, doctests and import contracts"
	@echo "make quick  run the short tests, without PyTorch if it is not installed"
	@echo "make check  check format, lint, spelling, types and contracts, and run all tests"
	@echo "make dist   build the source archive and the wheel in dist/"
	@echo "make matrix test the wheel on every installed Python, with the newest and lowest dependencies"
	@echo "make fuzz   run every verb on damaged inputs and kill it at every step; CASE=1234 repeats one case"
	@echo "make simulate-faults   simulate reviews with kills, power cuts, full disks and wrong clocks; SEEDS=1000"
	@echo "make mutants   count how many of 1,000 small faults in metrics and scoring the tests find; resumable"
	@echo "make sizes  measure the installed size of extras, each in an empty environment; EXTRAS='demo models'"
	@echo "make bench  the short benchmarks, their ratios beside the recorded ones; RECORD=1 records them"
	@echo "make servers   install MLServer and transformers serve in .servers/, each in its own environment"
	@echo "make server-mlserver SERVERS=--start   start MLServer with small models"
	@echo "make test-servers   run the tests of models behind an address against these servers"
	@echo "make site   build the documentation in site/, readable without a server or a network"
	@echo "make constraints   write the installed versions to constraints.txt, for CONSTRAINTS=constraints.txt"
	@echo "make docs   regenerate the CLI reference, results.schema.json and the table of ratios"

# $(VENV)/.NAME marks that the extra NAME is installed; an extra marks the smaller extras in it too. All share one $(VENV).
$(VENV)/.%: pyproject.toml
	@$(if $(NOTE_$*),echo "$(NOTE_$*)")
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[$*]"
	touch $@ $(INSIDE_$*:%=$(VENV)/.%)

INSIDE_quick := demo
INSIDE_dev := quick models demo
NOTE_dev := Installing all development tools and PyTorch: about 7 GB on Linux (PyPI has CUDA builds only) and 3 minutes.
NOTE_models := This demo trains or differentiates, so it needs PyTorch: about 5.5 GB more on Linux (PyPI has CUDA builds only).
TORCH_DEMOS := --training --generator --autoencoder

demo: $(VENV)/.demo $(if $(filter $(TORCH_DEMOS),$(DEMO)),$(VENV)/.models)
	$(BIN)/strobe demo $(DEMO)

browser: $(VENV)/.dev
	@$(BIN)/python scripts/get_browser.py

test: $(VENV)/.dev browser
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not servers"

quick: $(VENV)/.quick
	STROBE_HYPOTHESIS=quick $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not browser and not servers"

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/project_files.py $(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# tests/test_packaging.py runs the short form, with one environment. MATRIX="--torch 3.12" adds the demo on that Python.
dist: $(VENV)/.dev
	$(BIN)/python scripts/matrix.py --wheel dist

matrix: $(VENV)/.dev
	$(BIN)/python scripts/matrix.py $(MATRIX)

# Runs 1,000 cases and every kill; FUZZ="--cases 10000" runs more. A stopped run resumes. tests/test_fuzz.py is a short run.
fuzz: $(VENV)/.dev
	$(BIN)/python -m fuzz $(if $(CASE),--case $(CASE)) $(FUZZ)

# SEEDS=1000 runs more; SIMULATE="--seed 17" replays one seed. tests/test_simulate_faults.py runs 20 seeds.
simulate-faults: $(VENV)/.dev
	$(BIN)/python -m fuzz.simulate $(if $(SEEDS),--seeds $(SEEDS)) $(SIMULATE)

# Tests a seeded sample of 1,000; MUTANTS="--sample 150 --seed 1" takes another. A stopped run resumes. See docs/testing.md.
mutants: $(VENV)/.dev
	$(BIN)/python scripts/mutants.py $(MUTANTS)

# Ratios of one run, not seconds; exit code 1 if one fell by more than a tenth. About five minutes on two cores.
bench: $(VENV)/.dev
	$(BIN)/python scripts/bench.py $(if $(RECORD),--record)

# MLServer and transformers serve each need an environment of their own: docs/annexes/remote.md.
servers: server-mlserver server-transformers

server-mlserver: $(VENV)/.dev
	$(BIN)/python scripts/servers.py $(SERVERS)

server-transformers: $(VENV)/.dev
	$(BIN)/python scripts/servers_transformers.py install

# Tests over gRPC need the extra kserve-grpc.
test-servers: servers
	$(BIN)/python -m pytest -rs -n 0 tests/annexes/remote/servers

# Deletes an annex in a copy of the tree and checks the rest; the commit draws it, or ANNEX names it.
without-annex: $(VENV)/.dev
	$(BIN)/python scripts/delete_annex.py $(or $(ANNEX),--drawn $(shell git rev-parse HEAD))

sizes:
	$(PYTHON) scripts/sizes.py $(EXTRAS)

constraints: $(VENV)/.dev
	$(BIN)/python scripts/make_constraints.py

docs: $(VENV)/.dev
	$(BIN)/python scripts/make_cli_reference.py
	$(BIN)/python scripts/make_results_schema.py
	$(BIN)/python scripts/bench.py --page

site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:
	rm -rf $(VENV) .servers .mypy_cache .ruff_cache .hypothesis build dist site src/*.egg-info
