#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: without_lab.sh [ARGUMENT OF PYTEST...]
# Lint beside the unit tests: the longest linter uses one core only. What the linters say is shown when the tests are done.
set -uo pipefail
cd "$(dirname "$0")/.."
said=$(mktemp)
scripts/step.sh "Lint" scripts/lint.sh >"$said" 2>&1 &
lint=$!
trap 'kill "$lint" 2>/dev/null; rm -f "$said"' EXIT
scripts/step.sh "Unit tests" pytest -n 2 --dist worksteal -q tests/unit "$@"
tested=$?
wait "$lint"
linted=$?
cat "$said"
exit $((tested > linted ? tested : linted))
