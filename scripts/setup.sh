#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fill .venv from requirements.lock and install this checkout into it, editable. Does nothing when that is already so.
#
# pip installs one package, uv, which then installs the rest in a second or two instead of half a minute. uv does not
# read pip's configuration, so the machine's index settings are handed on to it; if uv cannot finish, pip does it all.
# What an earlier setup on this machine has downloaded is taken from uv's cache, without asking any index.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
venv=$root/.venv
stamp=$venv/.firstlight-setup

current=$({ echo "$root"; cat requirements.lock pyproject.toml; grep '^version:' galaxy.yml; } | sha256sum | cut -d' ' -f1)
if [[ -x $venv/bin/python && -e $stamp && $(<"$stamp") == "$current" ]]; then
  exit 0
fi

say() { printf '[setup %3d s] %s\n' "$SECONDS" "$*"; }
refuse() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

exec 9<"$root" # two setups of one checkout wait for each other
flock 9

find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      "$candidate" -c 'import sys; print(sys._base_executable)' # never the .venv that is about to be replaced
      return
    fi
  done
  return 1
}

# Debian and Ubuntu ship `venv` without the part that makes it work; that part is a package of its own.
make_venv_possible() {
  local python=$1 package
  "$python" -c 'import ensurepip, venv' 2>/dev/null && return
  package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  [[ $python == /usr/bin/* || $python == /bin/* ]] && command -v apt-get >/dev/null || refuse \
    "found $python without the modules 'venv' and 'ensurepip', which create virtual environments." \
    "Expected a complete Python 3.11 or newer. Install one and name it: make setup PYTHON=/path/to/python3"
  [[ $EUID == 0 ]] || refuse \
    "found $python without the modules 'venv' and 'ensurepip', and this is not root, which could install them." \
    "Run this once, then make again: sudo apt-get install $package"
  say "Installing $package"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -qq -y --no-install-recommends "$package" >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$package" >/dev/null; } ||
    refuse "apt-get could not install $package; its own message is above. Fix that, then make again."
}

# The index settings of this machine's pip, as arguments of uv. Prints one argument a line.
index_arguments() {
  "$venv/bin/python" -m pip config list 2>/dev/null | "$venv/bin/python" -c '
import ast, sys
options = {"index-url": "--index-url", "extra-index-url": "--extra-index-url", "find-links": "--find-links"}
seen = set()
for line in sys.stdin:
    name, _, value = line.rstrip().partition("=")
    option = options.get(name.rpartition(".")[2])
    for word in ast.literal_eval(value).split() if option else ():
        if (option, word) not in seen:
            seen.add((option, word))
            print(option, word, sep="\n")
'
}

# The pinned uv, as a path: one that is on PATH already, else from the package index.
find_uv() {
  local pin
  pin=$(sed -n 's/^uv==\([^ ;]*\).*/\1/p' requirements.lock)
  if [[ $(uv --version 2>/dev/null) == "uv $pin"* ]]; then
    command -v uv
    return
  fi
  awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements.lock >"$venv/uv.lock"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    -r "$venv/uv.lock" 2>>"$venv/setup.log" && echo "$venv/bin/uv"
}

install_with_uv() {
  local uv arguments=() certificates
  uv=$(find_uv) || return
  arguments=(--quiet --python "$venv/bin/python" --no-deps --require-hashes -r requirements.lock)
  "$uv" pip install --no-config --offline "${arguments[@]}" 2>/dev/null && return
  mapfile -t -O "${#arguments[@]}" arguments < <(index_arguments)
  certificates=${PIP_CERT:-$("$venv/bin/python" -m pip config get global.cert 2>/dev/null || true)}
  [[ -n $certificates ]] && export SSL_CERT_FILE=${SSL_CERT_FILE:-$certificates}
  UV_HTTP_RETRIES=1 "$uv" pip install --no-config --index-strategy unsafe-best-match "${arguments[@]}" \
    2>>"$venv/setup.log"
}

python=$(find_python) || refuse \
  "found no Python 3.11 or newer (looked for \$PYTHON, python3, python3.11 to python3.14)." \
  "Install one, or name one: make setup PYTHON=/path/to/python3"
make_venv_possible "$python"

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 ||
  ! grep -qF "$venv" "$venv/bin/activate" ||
  ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  say "Creating the virtual environment .venv with $python ($("$python" -V))"
  "$python" -m venv --clear "$venv"
fi

rm -f "$stamp" "$venv/setup.log"
count=$(grep -c '==' requirements.lock)
say "Installing $count pinned packages"
if ! install_with_uv; then
  say "uv failed, continuing with pip (uv's messages: .venv/setup.log)"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    -r requirements.lock 2>"$venv/setup.log" || {
    grep -v '^WARNING: Location' "$venv/setup.log" >&2
    refuse "pip could not install what requirements.lock names; its message is above." \
      "Expected the package index of this machine's pip to hold these versions: see 'pip config list'."
  }
fi

say "Installing this checkout (editable)"
"$venv/bin/uv" pip install --quiet --no-config --offline --no-cache --python "$venv/bin/python" \
  --no-deps --no-build-isolation --editable . ||
  refuse "this checkout could not be installed into .venv; the message is above."
echo "$current" >"$stamp"
say "Ready: .venv holds $count pinned packages and the command .venv/bin/firstlight"
