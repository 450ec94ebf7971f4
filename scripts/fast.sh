#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: fast.sh [ARGUMENT OF PYTEST...]
# Linters on what changed beside the unit tests that take no time. What the linters say is shown when the tests are done.
set -uo pipefail
cd "$(dirname "$0")/.."
said=$(mktemp)
scripts/step.sh "Lint of what changed" scripts/lint.sh --changed >"$said" 2>&1 &
lint=$!
trap 'kill "$lint" 2>/dev/null; rm -f "$said"' EXIT
scripts/step.sh "Unit tests" scripts/unit.sh test -m "not slow" "$@"
tested=$?
wait "$lint"
linted=$?
cat "$said"
exit $((tested > linted ? tested : linted))
