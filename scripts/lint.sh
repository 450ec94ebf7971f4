#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: lint.sh [--changed]
# Run every linter, two at a time: ansible-lint takes about as long as all the others together. A linter's output is
# shown only when it fails. All of them run, so that one call shows everything there is to fix.
# With --changed, ansible-lint and ansible-test look only at files that differ from where this branch left the default
# branch, committed or not; the other linters are quick enough to look at everything.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
export ANSIBLE_INVENTORY=inventory/lab,molecule/inventory
scope=all
case ${1-} in
  --changed) scope=changed ;;
  ?*)
    echo "usage: scripts/lint.sh [--changed]" >&2
    exit 2
    ;;
esac
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

# The names of all files, or of those that differ from the default branch. A file that was deleted has nothing to lint.
names() {
  local base
  if [[ $scope == changed ]] && base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null); then
    git diff --name-only --no-renames --diff-filter=d "$base" -- "$@"
  else
    git ls-files -- "$@"
  fi
  git ls-files --others --exclude-standard -- "$@"
}

# ansible-lint gets the YAML files by name: left to itself it reads every Python file and fixture, too, for a third of its
# time. The catalog and the changelog's fragments are plain data, of which yamllint says as much. A role's
# directory is named beside its files, for the check of its syntax.
mapfile -t playbooks < <(names '*.yml' '*.yaml' ':!catalog' ':!changelogs' ':!collections' |
  sed -nE 'p; s,^(roles/[^/]+)/.*,\1,p' | sort -u | while read -r name; do [[ -e $name ]] && echo "$name"; done)
plugins=()
if [[ $scope == changed ]]; then mapfile -t plugins < <(names 'plugins/*.py' | sort -u); fi

# ansible-lint starts `ansible-playbook --syntax-check FILE` for every playbook and role: some eighty times, two thirds of all
# that linting takes. Here a program of that name notes the file, and one ansible-playbook checks all of them afterwards.
mkdir "$work/bin" "$work/syntax"
cat >"$work/bin/ansible-playbook" <<EOF
#!/bin/sh
for file; do :; done # the last word
[ "\$1" = --syntax-check ] && [ -f "\$file" ] || exit 2
case \$file in
  ${TMPDIR:-/tmp}/play*) cp "\$file" "$work/syntax/" ;; # written for a role, and gone in a moment
  *) echo "\$file" >>"$work/syntax.list" ;;
esac
EOF
chmod +x "$work/bin/ansible-playbook"

syntax() {
  local files=() roles
  shopt -s nullglob
  [[ -e $work/syntax.list ]] && mapfile -t files < <(sort -u "$work/syntax.list")
  roles=("$work"/syntax/*.yml)
  if [[ $scope == all ]] && ((${#files[@]} < 2 || ${#roles[@]} < 2)); then
    echo "ansible-lint asked for ${#files[@]} playbooks and ${#roles[@]} roles, expected many: its syntax check has changed"
    return 1
  fi
  ((${#files[@]} + ${#roles[@]} == 0)) || ansible-playbook --syntax-check "${files[@]}" "${roles[@]}"
}

# What ansible-test would repeat: ruff does pep8, most of pylint and, with Python 3.10 as the modules' target, compile;
# antsibull-changelog runs by itself. pslint and shellcheck need programs that are not Python packages for every platform.
sanity() {
  local test skipped=()
  for test in changelog compile pep8 pslint pylint shellcheck; do skipped+=(--skip-test "$test"); done
  python scripts/sanity.py "${skipped[@]}" "${plugins[@]}"
}

ansible_lint() {
  PATH="$work/bin:$PATH" ansible-lint --nocolor "${playbooks[@]}"
}

{
  if ((${#playbooks[@]})); then
    check ansible-lint ansible_lint
    check syntax syntax
  fi
} &
{
  check ruff ruff check --no-fix
  check ruff-format ruff format --check
  check yamllint yamllint --strict .
  check changelog antsibull-changelog lint
  check mypy mypy
  check imports env PYTHONPATH=collections:src lint-imports --no-cache
  if [[ $scope == all ]] || ((${#plugins[@]})); then
    check sanity sanity
  fi
} &
wait
[[ ! -e $work/failed ]]
