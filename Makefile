# campaign-worker. `make` alone says what there is to make.
#
# Everything runs from .venv, which is made on demand from the lock; nothing outside this folder is touched.

PYTHON ?= python3
WORKERS ?= 2
# For the tests that mostly wait for the processes that they start, beside all that compute.
BESIDE ?= 4
# How many drawn worlds `make test` simulates, and at each point every how manieth of the single faults that differ.
SEEDS ?= 150
SINGLES ?= 45
export SEEDS SINGLES
# The tests start a hundred processes of the worker's, and pytest rewrites each file of tests for each of its own: what
# was compiled is kept, also where the surroundings say not to (containers often do).
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
READY := .venv/.ready
# Twice quiet: what fails is told, and no warning of where an index lies.
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
SAY := @printf '==> %s\n'

# Where a missed branch can cost money, none may be missed. The rest is measured and shown.
CORE := worker/model/*,worker/rules/*,worker/guards.py,worker/writes/*,worker/engine/decide.py
CORE_TESTS := tests/unit/model tests/unit/rules tests/unit/guards tests/unit/writes tests/unit/engine tests/unit/ledger/test_browsing.py \
	tests/conformance/test_conformance.py
# Cases by the thousand and whole worlds, which take twice as long under the measurement and add no branch to it.
UNMEASURED := tests/unit/writes/test_properties.py tests/unit/rules/test_schemas_hold.py tests/unit/engine/test_decide_properties.py \
	tests/unit/rules/test_two_parsers.py tests/unit/engine/test_fleet.py \
	tests/unit/engine/test_ruletests.py tests/unit/engine/test_ruletests_actions.py \
	tests/unit/engine/test_ruletests_quiet.py tests/unit/engine/test_ruletests_writes.py
PROCESSES := tests/acceptance
# The same of the longer proofs.
WAITING := $(addprefix tests/prove/test_,fleet.py kills.py rate_limit.py lossy_links.py troubles.py) tests/acceptance

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help .venv demo fleet test lint format types core unmeasured tests computed processes cover tools prove proved waited bench docs screens site schema golden lock audit sbom pin clean

help: ## say what there is to make
	@echo 'campaign-worker: watches events, decides by rules, makes every effect happen at most once.'
	@echo
	@echo 'Begin with    make demo     the whole story on an embedded twin of the service, under two minutes'
	@echo 'then          make test     everything that must hold before a change goes in'
	@echo
	@awk -F ':.*## ' '/^[.a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'The first of them makes .venv (Python 3.11 or later; another one: make PYTHON=python3.13 …).'
	@echo 'To run the worker itself: .venv/bin/campaign-worker --help'

.venv: $(READY) ## set up .venv from requirements-dev.lock, and the project in it

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "campaign-worker needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo 'Name another one: make PYTHON=python3.13 .venv' >&2; exit 1; }
	$(SAY) 'making .venv with $(PYTHON)'
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	$(SAY) 'installing what requirements-dev.lock names, each file checked by its hash'
	@$(PIP) install --no-compile --require-hashes -r requirements-dev.lock
	$(SAY) 'installing campaign-worker itself, editable'
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## the whole story on the embedded twin: events change, rules fire, answers get lost
	@$(BIN)/campaign-worker demo

fleet: $(READY) ## three workers on one PostgreSQL, one killed, one frozen; ends with the simulator's books
	@$(BIN)/python -m tests.fleet

test: lint tools ## the whole gate: style, types, layers, every test, coverage of the core
	$(SAY) 'what computes in turn, beside the tests that wait for real processes; each is shown when it is done, in about seven minutes'
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) computed processes

computed: $(READY) tools
	@for part in types core unmeasured tests; do $(MAKE) --no-print-directory $$part || exit 1; done

lint: $(READY) ## style, formatting and the layers
	$(SAY) 'ruff'
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	$(SAY) 'layers'
	@$(BIN)/lint-imports --no-logo

format: $(READY) ## format the code, and mend what can be mended without thought
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

types: $(READY) ## mypy, strict
	$(SAY) 'types'
	@$(BIN)/mypy

core: $(READY) ## the core's own tests, and its branch coverage, which must be complete
	$(SAY) 'tests of the core'
	@$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report= $(addprefix --ignore=,$(UNMEASURED)) $(CORE_TESTS)
	$(SAY) 'coverage of the core: every branch'
	@$(BIN)/coverage report --include='$(CORE)' --fail-under=100

unmeasured: $(READY) ## those tests of the core that add nothing to its coverage: drawn cases, whole worlds
	$(SAY) 'tests of the core, unmeasured'
	@$(BIN)/python -m pytest -n $(WORKERS) $(UNMEASURED)

tests: $(READY) tools ## every other test that computes
	$(SAY) 'all other tests'
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(addprefix --ignore=,$(CORE_TESTS) $(PROCESSES))

processes: $(READY) tools ## the tests of real processes, which mostly wait
	$(SAY) 'tests of real processes'
	@$(BIN)/python -m pytest -n $(BESIDE) --dist worksteal $(PROCESSES)

cover: $(READY) tools ## every test with coverage of everything; slower than `make test`
	@$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=
	@$(BIN)/coverage report

tools: ## what the tests need beside Python, installed where it is missing and may be
	@sh tests/tools.sh

prove: $(READY) ## the longer proofs: many seeds, real processes killed
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) proved waited

proved: $(READY) ## those proofs that compute
	$(SAY) 'proofs that compute'
	@$(BIN)/python -m pytest -n $(WORKERS) -m prove --timeout 0 --durations 25 $(addprefix --ignore=,$(WAITING))

waited: $(READY) ## those that mostly wait: for real processes, links, a limit that is found
	$(SAY) 'proofs with real processes'
	@$(BIN)/python -m pytest -n $(BESIDE) -m prove --timeout 0 --durations 10 $(WAITING)

bench: $(READY) ## every benchmark, one table each
	@set -- benchmarks/*.py; \
	  if [ ! -e "$$1" ]; then echo 'Nothing was measured: there is no benchmarks/*.py.' >&2; exit 1; fi; \
	  missed=; for script in "$$@"; do printf '==> %s\n' "$$script"; \
	    $(BIN)/python "$$script" || missed="$$missed $$script"; done; \
	  if [ -n "$$missed" ]; then echo "Not reached, or not measured:$$missed" >&2; exit 1; fi

docs: $(READY) ## write anew what docs/ has from the code: reference, coverage, the states for the night, two charts
	@$(BIN)/python -m tests.reference
	@echo '==> docs/reference.md docs/api-coverage.md docs/operating.md docs/delays.svg docs/soak.svg'

screens: $(READY) ## take the pictures of the page anew, with a browser of this machine: docs/screens/
	@$(BIN)/python -m tests.web.screens docs/screens

site: $(READY) ## the docs as a site, built without a warning: dist/site/index.html
	@$(BIN)/sphinx-build -q -W --keep-going -n -c docs/site . dist/site
	@echo '==> dist/site/index.html'

schema: $(READY) ## write the JSON Schemas that editors read, into docs/schema/
	@mkdir -p docs/schema
	@for name in config rules tests; do \
	  $(BIN)/campaign-worker schema $$name > docs/schema/$$name.json.new \
	    && mv docs/schema/$$name.json.new docs/schema/$$name.json \
	    || { rm -f docs/schema/$$name.json.new; exit 1; }; \
	  printf '==> docs/schema/%s.json\n' $$name; done

golden: $(READY) ## write anew what check says of the broken rules in tests/broken_rules/
	@$(BIN)/python -m tests.broken_rules
	@git --no-pager diff --stat -- tests/broken_rules

lock: $(READY) ## solve the dependencies anew where pyproject.toml changed; newest of all: make lock UPGRADE=--upgrade
	$(SAY) 'requirements.lock'
	@$(COMPILE) $(UPGRADE) --extra messages --extra postgres pyproject.toml --output-file requirements.lock
	$(SAY) 'requirements-dev.lock'
	@$(COMPILE) $(UPGRADE) --extra dev --extra messages --constraint requirements.lock pyproject.toml --output-file requirements-dev.lock
	$(SAY) 'requirements-build.lock'
	@$(COMPILE) $(UPGRADE) --constraint requirements-dev.lock --group build --output-file requirements-build.lock
	$(SAY) 'requirements-audit.lock'
	@$(COMPILE) $(UPGRADE) --group audit --output-file requirements-audit.lock
	$(SAY) 'benchmarks/requirements'
	@for wanted in benchmarks/requirements/*.in; do \
	  $(COMPILE) $(UPGRADE) $$wanted --output-file $${wanted%.in}.txt || exit 1; done

.audit/.ready: requirements-audit.lock
	$(SAY) 'installing what requirements-audit.lock names into .audit, each file checked by its hash'
	@$(PYTHON) -m venv --clear .audit
	@.audit/bin/python -m pip --quiet --quiet --disable-pip-version-check install --require-hashes -r requirements-audit.lock
	@touch $@

audit: .audit/.ready ## known vulnerabilities of what the locks name; asks the database of the package index, so it needs the network
	@.audit/bin/pip-audit --strict --require-hashes --disable-pip $(addprefix -r ,$(wildcard requirements*.lock)) $(AUDIT_OPTIONS)

sbom: .audit/.ready ## what is installed with the worker, as a CycloneDX bill of materials: dist/sbom.json
	@mkdir -p dist
	@.audit/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file dist/sbom.json
	@echo '==> dist/sbom.json'

pin: ## write the digest of the image's base into the Dockerfile; asks the registry of images, by skopeo
	@base=$$(sed -n 's/^ARG BASE=\([^@]*\).*/\1/p' Dockerfile) && digest=$$(skopeo inspect --format '{{.Digest}}' "docker://$$base") \
	  && sed "s|^ARG BASE=.*|ARG BASE=$$base@$$digest|" Dockerfile > Dockerfile.new && mv Dockerfile.new Dockerfile
	@grep '^ARG BASE=' Dockerfile

clean: ## remove what was made here; never a ledger
	@rm -rf .venv .audit benchmarks/.rivals build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov
	@find worker tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
