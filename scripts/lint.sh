#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run every linter, two at a time: ansible-lint takes about as long as all the others together. A linter's output is
# shown only when it fails. All of them run, so that one call shows everything there is to mend.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
export ANSIBLE_INVENTORY=inventory/lab,molecule/inventory
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
  mapfile -t files < <(sort -u "$work/syntax.list")
  roles=("$work"/syntax/*.yml)
  if ((${#files[@]} < 2 || ${#roles[@]} < 2)); then
    echo "ansible-lint asked for ${#files[@]} playbooks and ${#roles[@]} roles, expected many: it checks syntax in another way than it did"
    return 1
  fi
  ansible-playbook --syntax-check "${files[@]}" "${roles[@]}"
}

{
  check ansible-lint env PATH="$work/bin:$PATH" ansible-lint --nocolor
  check syntax syntax
} &
{
  check ruff ruff check --no-fix
  check ruff-format ruff format --check
  check yamllint yamllint --strict .
  check changelog antsibull-changelog lint
  check mypy mypy
} &
wait
[[ ! -e $work/failed ]]
