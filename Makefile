# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs by itself, says what it does, and stops at the first failure with its status.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export STEP_STARTED := $(shell date +%s)
export PYTHON
# Hundreds of Python processes are started here: with the first of these, each would compile all of Ansible anew; with the
# second, each module on this machine would be read byte by byte.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

STEP := scripts/step.sh
SUITE := python -m tests.suite.run
SCENARIO ?=
SLICE ?=
NODE ?= spark0
# Further arguments of pytest: make unit PYTEST_ARGS='-k netplan -x'
PYTEST_ARGS ?=
SUITE_ARGS = $(if $(SLICE),--slice $(SLICE)) $(if $(PYTEST_ARGS),--pytest-args="$(PYTEST_ARGS)")

.PHONY: help setup demo test test-fast test-hostile test-newest test-all test-times test-serving test-racks test-thorough lint unit molecule e2e lab-up lab-status lab-ssh lab-down bench-plan bench-rerun docs lock sbom audit release-notes release clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Fill .venv from requirements.lock (PYTHON=/path/to/python3 chooses the interpreter)
	@scripts/setup.sh

demo: setup ## Simulate four DGX Sparks on this machine, run site.yml on them, request a chat completion
	@$(STEP) "Demo" firstlight demo

test: setup ## What every change must pass: linters, unit tests, and the lab with the real programs
	@$(STEP) "Tests" $(SUITE) test $(SUITE_ARGS)

test-fast: setup ## No lab: linters on what changed, types, and every fast unit test
	@scripts/fast.sh $(PYTEST_ARGS)

test-hostile: setup ## What an attacker would send to every open service: unit tests without a lab, under two minutes
	@$(STEP) "Hostile tests" scripts/unit.sh test -m hostile $(PYTEST_ARGS)

test-newest: setup ## The fast tests, a plan and a syntax check with the newest Python and ansible-core (root; a Debian 13 file system)
	@$(STEP) "Newest" scripts/newest.sh scripts/newest_tests.sh $(PYTEST_ARGS)

test-all: setup ## All tests, or one slice of them: SLICE=1/5
	@$(STEP) "All tests $(SLICE)" $(SUITE) all $(SUITE_ARGS)

test-times: setup ## Where the minutes of the last run went, slowest first, compared with the run before
	@python -m tests.suite.times

test-serving: setup ## The part of test-all about serving: every serving profile, every serving fault, the endpoint
	@$(STEP) "Serving" $(SUITE) all --only serving-recovery serving-stops serving-day2 serving-change serving-layouts serving-bench serving-tune exposed single-node $(SUITE_ARGS)

test-racks: setup ## The part of test-all about racks; FIRSTLIGHT_SCALE_HOSTS=64 for a whole floor
	@$(STEP) "Racks" $(SUITE) all --only racks racks-change $(SUITE_ARGS)

test-thorough: setup ## The parts of test-all about fabrics and the lab itself
	@$(STEP) "Fabric and lab" $(SUITE) all --only fabric lab $(SUITE_ARGS)

lint: setup ## ansible-lint, ansible-test sanity, yamllint, ruff, mypy, changelog fragments
	@$(STEP) "Lint" scripts/lint.sh

unit: setup ## The unit tests of `make test`; those marked `extended` are in test-all
	@$(STEP) "Unit tests" scripts/unit.sh test $(PYTEST_ARGS)

molecule: setup ## Molecule in the lab: every scenario, or SCENARIO=name
	@$(STEP) "Molecule $(SCENARIO)" $(if $(SCENARIO),python -m tests.suite.molecule $(SCENARIO),$(SUITE) all --only molecule-serve molecule-services molecule-host molecule-own debian13 debian13-packages)

e2e: setup ## The end-to-end tests of `make test`: whole clusters in the lab, and the README's own commands
	@$(STEP) "End-to-end tests" $(SUITE) test --only cluster racks repin single-node $(SUITE_ARGS)

lab-up: setup ## Start the lab
	@firstlight lab up

lab-status: setup ## Show the lab's nodes
	@firstlight lab status

lab-ssh: setup ## Log in to a lab node: make lab-ssh NODE=spark0
	@firstlight lab ssh $(NODE)

lab-down: setup ## Stop the lab and remove all of it
	@firstlight lab down

bench-plan: setup ## How long plans of 4 to 1000 hosts take, in processor time
	@python scripts/bench_plan.py

bench-rerun: setup ## What a second run costs compared with pyinfra and plain Ansible: 4, 16 and 64 nodes in the lab, or HOSTS="4 16"
	@uv venv --quiet --allow-existing build/bench-rerun
	@uv pip sync --quiet --require-hashes --python build/bench-rerun/bin/python tests/e2e/racks/rerun/requirements.lock
	@$(STEP) "A second run" python -m tests.e2e.racks.bench_rerun $(HOSTS) $(BENCH_ARGS)

docs: setup ## Build the documentation site into build/docs; no network needed, neither to build nor to read it
	@$(STEP) "Documentation" env NO_MKDOCS_2_WARNING=1 python -m mkdocs build
	@echo "    open build/docs/index.html"

lock: setup ## Regenerate requirements.lock from pyproject.toml
	@scripts/lock.sh

sbom: setup ## Write bills of materials (CycloneDX) of the wheel, the collection and every stack into build/sbom
	@$(STEP) "Bills of materials" python scripts/sbom.py

audit: setup ## Look up every package of requirements.lock in the database of known vulnerabilities
	@$(STEP) "Audit" python scripts/audit.py

release-notes: setup ## Move changelogs/fragments/ into CHANGELOG.md, for the version in galaxy.yml
	@antsibull-changelog release

release: setup ## Wheel, collection, bills of materials, notes and checksums of this commit in build/release; publishes nothing
	@$(STEP) "Release" scripts/release.sh

clean: ## Remove the tools' caches
	@rm -rf .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf

distclean: clean ## Remove the tools' caches and .venv (stop the lab first)
	@rm -rf .venv
