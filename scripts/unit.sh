#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: unit.sh [ARGUMENT OF PYTEST...]
# The unit tests. They write thousands of small files, which takes half as long in memory as on a disk.
set -uo pipefail
cd "$(dirname "$0")/.."

in_memory() { # print a new directory in memory from which programs may run; fail where there is none
  local folder
  folder=$(mktemp -d /dev/shm/firstlight-unit-XXXXXX 2>/dev/null) || return 1
  printf '#!/bin/sh\n' >"$folder/program" && chmod +x "$folder/program" && "$folder/program" 2>/dev/null &&
    (($(df --output=avail -k "$folder" | tail -1) > 1000000)) && rm "$folder/program" && echo "$folder" && return
  rm -rf "$folder"
  return 1
}

if folder=$(in_memory); then
  export TMPDIR=$folder
  trap 'rm -rf "$folder"' EXIT
fi
pytest -n 2 --dist worksteal -q tests/unit "$@"
