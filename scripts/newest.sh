#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: newest.sh COMMAND [ARGUMENT...]
# Run a command in this checkout with the newest Python and ansible-core that are supported, instead of .venv's: a Debian 13 file system
# (made once, by root, in the cache) with the pins of requirements.lock but for ansible-core. Network, /tmp, the home directory and
# the checkout are this machine's, at their own paths, so that a lab of this machine is reached as from here.
set -euo pipefail
cd "$(dirname "$0")/.."
core=2.21.5
checkout=$PWD
cache=${XDG_CACHE_HOME:-$HOME/.cache}/firstlight-newest
system=$cache/trixie
venv=/opt/newest
packages=python3-venv,ca-certificates,git,gpg,iproute2,make,openssh-client,openssl,procps

refuse() {
  printf 'newest: %s\n' "$@" >&2
  exit 1
}
[[ $EUID == 0 ]] || refuse "found user $EUID, expected root, which mounts this checkout into another file system. Run it with sudo."
command -v mmdebstrap >/dev/null || refuse "found no mmdebstrap, which builds that file system. Do: apt-get install mmdebstrap"

# In a mount namespace of its own: nothing stays mounted, whatever happens.
inside() {
  # shellcheck disable=SC2016
  exec unshare --mount bash -euo pipefail -c '
    system=$1 checkout=$2 venv=$3; shift 3
    for place in /proc /sys /dev /tmp "$HOME" "$checkout" "$(git -C "$checkout" rev-parse --path-format=absolute --git-common-dir)"; do
      mkdir -p "$system$place"
      mount --rbind "$place" "$system$place"
    done
    exec chroot "$system" /usr/bin/env -C "$checkout" "PATH=$venv/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"' newest \
    "$system" "$checkout" "$venv" "$@"
}

mkdir -p "$cache"
exec 9<"$cache" # two runs wait for each other
flock 9
if [[ ! -e $system/.complete || $(<"$system/.complete") != "$packages" ]]; then
  echo "newest: building a Debian 13 file system in $system: about two minutes"
  rm -rf "$system"
  mmdebstrap --quiet --variant=minbase --format=directory --aptopt='APT::Install-Recommends "false"' \
    "--include=$packages" trixie "$system"
  echo "$packages" >"$system/.complete"
fi
cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
# This machine's package index, with its certificates.
.venv/bin/python -m pip config list 2>/dev/null | .venv/bin/python -c '
import ast, sys
print("[global]")
for line in sys.stdin:
    name, _, value = line.rstrip().partition("=")
    if name.startswith("global."):
        print(name.removeprefix("global."), "=", ast.literal_eval(value))' >"$system/etc/pip.conf"
certificates=${PIP_CERT:-$(.venv/bin/python -m pip config get global.cert 2>/dev/null || true)}
[[ -z $certificates ]] || install -D -m 0644 "$certificates" "$system$certificates"

current=$({ echo "$core $checkout"; cat "$0" requirements.lock pyproject.toml; } | sha256sum | cut -d' ' -f1)
if [[ ! -e $system$venv/.complete || $(<"$system$venv/.complete") != "$current" ]]; then
  echo "newest: installing the pinned packages, and ansible-core $core"
  mkdir -p "$system$venv"
  awk '/^[^ ]/ { wanted = !/^ansible-core==/ } wanted' requirements.lock >"$system/opt/requirements.lock"
  # shellcheck disable=SC2016
  (inside sh -euc '
    python3 -m venv --clear "$1"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r /opt/requirements.lock
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "ansible-core==$2"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    "$1/bin/python" -m pip check' sh "$venv" "$core")
  echo "$current" >"$system$venv/.complete"
fi
flock -u 9
inside env "VIRTUAL_ENV=$venv" "$@"
