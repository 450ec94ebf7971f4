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
export MOLECULE_GLOB := molecule/*/molecule.yml

STEP := scripts/step.sh
SCENARIO ?= all
NODE ?= spark0
# Further arguments of pytest: make unit PYTEST_ARGS='-k netplan -x'
PYTEST_ARGS ?=

.PHONY: help setup demo test test-fast without-lab lint unit molecule e2e test-serving test-racks test-thorough lab-up lab-status lab-ssh lab-down lock release-notes clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Fill .venv from requirements.lock (PYTHON=/path/to/python3 chooses the interpreter)
	@scripts/setup.sh

demo: setup ## Four simulated DGX Sparks on this machine, site.yml on them, a chat completion they served
	@$(STEP) "Demo" firstlight demo

test: without-lab molecule e2e ## Linters, unit tests, Molecule and the end-to-end tests: what the build machine runs

test-fast: setup ## Linters, types, and the unit tests that take no time
	@scripts/without_lab.sh -m "not slow" $(PYTEST_ARGS)

without-lab: setup ## Linters, types, and every unit test
	@scripts/without_lab.sh $(PYTEST_ARGS)

lint: setup ## ansible-lint, yamllint, ruff, mypy, changelog fragments
	@$(STEP) "Lint" scripts/lint.sh

unit: setup ## Every unit test
	@$(STEP) "Unit tests" pytest -n 2 --dist worksteal -q tests/unit $(PYTEST_ARGS)

molecule: setup ## Molecule in the lab: every scenario, or SCENARIO=name
	@$(STEP) "Molecule: $(SCENARIO)" scripts/molecule.sh $(SCENARIO)

e2e: setup ## The whole cluster in the lab, and the README's own commands
	@$(STEP) "End-to-end tests" pytest tests/e2e -m "not thorough" -n 3 -v -o timeout=2400 --durations=30 --durations-min=5 $(PYTEST_ARGS)

test-serving: setup ## Every way to serve and every fault of serving; `make e2e` has the most important of them
	@$(STEP) "Serving" pytest tests/serving -v -o timeout=2400 $(PYTEST_ARGS)

test-racks: setup ## New machines, clusters that grow and shrink, several racks; FIRSTLIGHT_SCALE_HOSTS=64 for a whole floor
	@$(STEP) "Racks" pytest tests/e2e -m racks -v -o timeout=2400 $(PYTEST_ARGS)

test-thorough: setup ## Sixteen nodes in pairs, a lab without root, faults of a fabric that Molecule shows, too
	@$(STEP) "Thorough" pytest tests/e2e -m thorough -v -o timeout=2400 $(PYTEST_ARGS)

lab-up: setup ## Start the lab
	@firstlight lab up

lab-status: setup ## Show the lab's nodes
	@firstlight lab status

lab-ssh: setup ## Log in to a lab node: make lab-ssh NODE=spark0
	@firstlight lab ssh $(NODE)

lab-down: setup ## Stop the lab and leave nothing behind
	@firstlight lab down

lock: setup ## Write requirements.lock anew from pyproject.toml
	@scripts/lock.sh

release-notes: setup ## Move changelogs/fragments/ into CHANGELOG.md, for the version in galaxy.yml
	@antsibull-changelog release

clean: ## Remove the tools' caches
	@rm -rf .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf

distclean: clean ## Remove the tools' caches and .venv (stop the lab first)
	@rm -rf .venv
