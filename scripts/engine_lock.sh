#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write catalog/locks/vllm-VERSION-ARCHITECTURE-pyXY.txt: every wheel of an engine's release by hash, for one architecture and
# one Python, and no registry's name.  scripts/engine_lock.sh [OPTION ...] vllm==0.32.0 x86_64 3.12 [further requirements]
#   --name NAME             begins the file's name, instead of the engine and its version
#   --override NAME==VERSION  takes the place of whatever others ask for; can be given several times
#   --like LOCK             keeps the versions of this lock, but for what is overridden
#   --beside LOCK           keeps them, too, and leaves its packages out: for a layer on an image that has them
# The wheels are those for glibc 2.35 and newer: Ubuntu 22.04, DGX OS 7, Debian 12.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
name="" like="" beside=""
: >"$scratch/overrides.txt"
: >"$scratch/constraints.txt"
while [[ ${1-} == --* ]]; do
  case $1 in
    --name) name=$2 ;;
    --override) echo "$2" >>"$scratch/overrides.txt" ;;
    --like) like=$2 ;;
    --beside) like=$2 beside=$2 ;;
    *)
      echo "scripts/engine_lock.sh: unknown option $1; expected --name, --override, --like or --beside" >&2
      exit 2
      ;;
  esac
  shift 2
done
engine=$1 architecture=$2 python=$3
shift 3

printf '%s\n' "$engine" "$@" >"$scratch/requirements.in"
if [[ -n $like ]]; then
  # What is overridden must not be asked for in the former version, too.
  sed -n 's/^\([^#[:space:]]*==[^[:space:]]*\).*/\1/p' "$like" |
    { grep -v -i -F -f <(sed 's/==.*/==/' "$scratch/overrides.txt") || true; } >"$scratch/constraints.txt"
fi
.venv/bin/uv pip compile --quiet --format pylock.toml --generate-hashes --only-binary :all: --no-header --no-annotate \
  --python-version "$python" --python-platform "$architecture-manylinux_2_35" \
  --override "$scratch/overrides.txt" --constraint "$scratch/constraints.txt" \
  "$scratch/requirements.in" --output-file "$scratch/pylock.toml"
target=catalog/locks/${name:-${engine/==/-}}-$architecture-py${python/./}.txt
mkdir -p catalog/locks
.venv/bin/python -m scripts.engine_lock "$scratch/pylock.toml" "$python" "$architecture" ${beside:+"$beside"} >"$scratch/lock"
install -m 0644 "$scratch/lock" "$target"
echo "$target: $(grep -c '==' "$target") exact pins"
