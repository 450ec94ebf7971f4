#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write requirements.lock and the host's uv.txt anew from pyproject.toml: exact versions with the hashes of every
# platform's files, and no registry's name. Versions already in the lock stay unless they are asked for: scripts/lock.sh --upgrade-package NAME
set -euo pipefail
cd "$(dirname "$0")/.."

compile=(.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes
  --no-emit-index-url --no-emit-find-links --no-header --no-annotate)
"${compile[@]}" --group dev --extra quality "$@" pyproject.toml --output-file requirements.lock
"${compile[@]}" --group pyproject.toml:bench-rerun "$@" --output-file tests/e2e/racks/rerun/requirements.lock
sed -i '1i # Exact pins of everything in .venv, made from pyproject.toml by `make lock`. Do not edit by hand.' requirements.lock
{
  echo '# uv, which role engine_venv installs an engine with: the pin of requirements.lock, made by `make lock`. Do not edit by hand.'
  awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements.lock
} >roles/engine_venv/files/uv.txt
echo "requirements.lock: $(grep -c '==' requirements.lock) exact pins"
