#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write catalog/locks/vllm-VERSION-ARCHITECTURE-pyXY.txt: every wheel of an engine's release by hash, for one architecture and
# one Python, and no registry's name.  scripts/engine_lock.sh vllm==0.32.0 x86_64 3.12 [further requirements]
# The wheels are those for glibc 2.35 and newer: Ubuntu 22.04, DGX OS 7, Debian 12.
set -euo pipefail
cd "$(dirname "$0")/.."
engine=$1 architecture=$2 python=$3
shift 3

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '%s\n' "$engine" "$@" >"$scratch/requirements.in"
.venv/bin/uv pip compile --quiet --format pylock.toml --generate-hashes --only-binary :all: --no-header --no-annotate \
  --python-version "$python" --python-platform "$architecture-manylinux_2_35" \
  "$scratch/requirements.in" --output-file "$scratch/pylock.toml"
target=catalog/locks/${engine/==/-}-$architecture-py${python/./}.txt
mkdir -p catalog/locks
.venv/bin/python -m firstlight.engine_lock "$scratch/pylock.toml" "$python" "$architecture" >"$scratch/lock"
install -m 0644 "$scratch/lock" "$target"
echo "$target: $(grep -c '==' "$target") exact pins"
