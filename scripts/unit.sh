#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: unit.sh test|all [ARGUMENT OF PYTEST...]
# Every unit test; with `all`, property tests try as many examples as they can think of.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1
shift
[[ $suite != all ]] || export HYPOTHESIS_PROFILE=all
exec pytest -n 2 --dist worksteal -q tests/unit "$@"
