#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: release.sh [DIRECTORY]
# Make everything of a release of this commit: wheel, collection, bills of materials, notes and checksums. Nothing is
# published, and nothing in the checkout changes: all of it is made from a copy of the commit, with the commit's time.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
out=${1:-build/release}
version=$(sed -n 's/^version: *//p' galaxy.yml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"

if [[ -n $(git status --porcelain) ]]; then
  echo "    uncommitted changes are not included: built from commit $(git rev-parse --short HEAD)"
fi
if compgen -G "$copy/changelogs/fragments/*.yml" >/dev/null; then
  echo "    the notes are a draft: run \`make release-notes\` and commit before you tag v$version"
  (cd "$copy" && antsibull-changelog release --date "$(date -u -d "@$SOURCE_DATE_EPOCH" +%F)" >/dev/null)
fi
# The section of this version, without its heading; in headings antsibull-changelog escapes dots.
awk -v version="$version" '
  /^## / { name = $2; gsub(/\\/, "", name); sub(/^v/, "", name); inside = name == version; next }
  /^<a id=/ { next }
  inside' "$copy/CHANGELOG.md" >"$out/NOTES.md"
[[ -s $out/NOTES.md ]] || {
  echo "release: no section for version $version in CHANGELOG.md, expected its notes: add changelogs/fragments/" >&2
  exit 1
}

uv build --quiet --offline --wheel --no-build-isolation --python .venv/bin/python --out-dir "$out" "$copy"
(cd "$copy" && ansible-galaxy collection build --output-path "$out" >/dev/null)
PYTHONPATH=$copy/collections:$copy/src python "$copy/scripts/sbom.py" "$out/sbom"
rm -f "$out/.gitignore" # uv's
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
echo "    $out:"
sed 's/^[0-9a-f]*  /      /' "$out/SHA256SUMS"
