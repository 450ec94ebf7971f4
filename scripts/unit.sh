#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: unit.sh test|all [ARGUMENT OF PYTEST...]
# The unit tests of `make test`; with `all` those marked `extended`, too, and property tests try as many examples as they can think of.
#
# Two processes, each with half of the tests: workers of pytest-xdist would both import all of them, and hand every result on.
# What the first one says is shown when the second is done.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1
shift
chosen=(-m "not extended")
if [[ $suite == all ]]; then
  export HYPOTHESIS_PROFILE=all
  chosen=()
fi
NONE=5 # pytest's status where no test was chosen

said=$(mktemp)
set -m # each has a process group of its own, and is interrupted like a program that was started by hand
pytest -q tests/unit/plugins "${chosen[@]}" "$@" >"$said" 2>&1 &
halves=($!)
pytest -q tests/unit --ignore=tests/unit/plugins "${chosen[@]}" "$@" &
halves+=($!)
set +m
trap 'kill -INT -- "${halves[@]/#/-}" 2>/dev/null || true' INT TERM
trap 'rm -f "$said"' EXIT

statuses=()
for half in "${halves[@]}"; do
  status=0
  wait "$half" || status=$?
  while kill -0 "$half" 2>/dev/null; do # it was this script that was interrupted
    status=0
    wait "$half" || status=$?
  done
  statuses+=("$status")
done
cat "$said"
worst=$NONE
for status in "${statuses[@]}"; do
  if [[ $status != "$NONE" && ($worst == "$NONE" || $worst == 0) ]]; then worst=$status; fi
done
exit "$worst"
