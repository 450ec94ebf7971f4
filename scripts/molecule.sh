#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run Molecule: every scenario, or the one that is named. Starts from a fresh lab and removes it, however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=${1:-all}

# Molecule remembers "created" under the name of the checkout's directory: another checkout of that name, or a run that was
# cut off, would make it skip the start of the lab. A directory of its own remembers nothing.
MOLECULE_EPHEMERAL_DIRECTORY=$(mktemp -d)
export MOLECULE_EPHEMERAL_DIRECTORY
cleanup() {
  firstlight lab down --name molecule
  rm -rf "$MOLECULE_EPHEMERAL_DIRECTORY"
}
trap cleanup EXIT

firstlight lab down --name molecule
if [[ $scenario == all ]]; then
  molecule test --all
else
  molecule test --scenario-name "$scenario"
fi
