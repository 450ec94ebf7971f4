#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run every linter, two at a time: ansible-lint takes about as long as all the others together. A linter's output is
# shown only when it fails. All of them run, so that one call shows everything there is to mend.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() {
  local name=$1 began=$SECONDS
  shift
  if "$@" >"$work/$name.log" 2>&1; then
    printf '    %-18s clean  %3d s\n' "$name" $((SECONDS - began))
  else
    printf '    %-18s FAILED %3d s: %s\n' "$name" $((SECONDS - began)) "$*"
    sed 's/^/      /' "$work/$name.log"
    touch "$work/failed"
  fi
}

check ansible-lint env ANSIBLE_INVENTORY=inventory/lab,molecule/inventory ansible-lint --nocolor &
{
  check ruff ruff check --no-fix
  check ruff-format ruff format --check
  check yamllint yamllint --strict .
  check changelog antsibull-changelog lint
  check mypy mypy
} &
wait
[[ ! -e $work/failed ]]
