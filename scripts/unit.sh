#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: unit.sh test|all [ARGUMENT OF PYTEST...]
# The unit tests of `make test`; with `all` those marked `extended`, too, and property tests try as many examples as they can think of.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1
shift
chosen=(-m "not extended")
if [[ $suite == all ]]; then
  export HYPOTHESIS_PROFILE=all
  chosen=()
fi
exec pytest -n 2 --dist worksteal -q tests/unit "${chosen[@]}" "$@"
