#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: newest_tests.sh [ARGUMENT OF PYTEST...]
# What is run with the newest Python and ansible-core (scripts/newest.sh): versions, a plan, a syntax check, the unit tests that take no time.
set -euo pipefail
cd "$(dirname "$0")/.."
ansible --version
python --version
firstlight plan -i inventory/spark4 >/dev/null
! ANSIBLE_DEPRECATION_WARNINGS=true ansible-playbook playbooks/plan.yml -i inventory/spark4 2>&1 | grep -A3 "DEPRECATION WARNING"
ansible-playbook site.yml -i inventory/spark4 --syntax-check
# What is shown of a run depends on Ansible the most.
python -m pytest -q tests/unit/plugins/callback
# The lock pins the oldest ansible-core, and is not what is installed here.
exec python -m pytest -n 2 --dist worksteal -q -m "not slow" --deselect tests/unit/test_repository.py::test_lock_is_what_is_installed \
  tests/unit "$@"
