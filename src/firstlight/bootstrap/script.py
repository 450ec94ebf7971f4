# SPDX-License-Identifier: Apache-2.0
"""The bootstrap steps as shell scripts: each is idempotent, and a file is replaced whole or not at all. Pure functions.

Shell, because Python is one of the things that may be missing. No script contains a secret. Files are written with
`cat`, which reports why a write failed; the shell's own printf only reports that it did.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from firstlight.errors import UsageError
from firstlight.ssh.faults import Fault, full_disk, step_failed

PYTHON = (3, 10)
"""The oldest Python version that the collection's modules support."""
SUDO = ("nopasswd", "password")
OK, CHANGED, WOULD = "ok", "changed", "would change"
_STEPS = {"ok": OK, "changed": CHANGED, "would": WOULD}
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
_PUBLIC = re.compile(r"(?P<kind>(?:ssh|ecdsa|sk)-[a-z0-9@.-]+) (?P<blob>[A-Za-z0-9+/]{40,}={0,2})(?: (?P<comment>.*))?")
_NO_SPACE = ("No space left on device", "Disk quota exceeded", "disk full")


@dataclass(frozen=True)
class Wanted:
    """The desired state of every node; anything not listed here is left to the node."""

    user: str
    public_key: str
    sudo: str = "nopasswd"
    password_login: bool = True
    hostnames: bool = True
    check: bool = False


def check_user(user: str) -> None:
    """Reject an invalid account name, since it is used in files and commands. Raises UsageError."""
    if not _USER.fullmatch(user):
        raise UsageError(f"the user is {user!r}; expected the name of an account, as in /etc/passwd.")


def check_wanted(wanted: Wanted) -> None:
    """Reject values that are unsafe in a shell script or a sudoers file. Raises UsageError."""
    check_user(wanted.user)
    if not _PUBLIC.fullmatch(wanted.public_key):
        raise UsageError(
            "the operator's public key is not one line of a known kind; expected what ssh-keygen wrote into its .pub "
            "file. Name that file with --key."
        )


_HEAD = r"""
set -eu
LC_ALL=C; export LC_ALL
begin() { printf '@ %s begin\n' "$1"; step=$1; }
is() { printf '@ %s %s\n' "$step" "$1"; }
refuse() { echo "$*" >&2; exit 1; }
"""

_KEY = r"""
begin key
umask 077
file=$HOME/.ssh/authorized_keys
if [ -f "$file" ] && awk -v key="$key" 'index($0, key) == 1 { found = 1 } END { exit !found }' "$file"; then is ok
elif [ "$check" = 1 ]; then is would
else
    mkdir -p "$HOME/.ssh"
    new=$file.firstlight.new
    if ! [ -L "$new" ]; then rm -f "$new"; fi
    trap 'rm -f "$new"' EXIT
    if [ -f "$file" ]; then cat "$file" > "$new"; fi
    if [ -f "$new" ] && [ -n "$(tail -c 1 "$new")" ]; then echo | cat >> "$new"; fi
    printf '%s\n' "$line" | cat >> "$new"
    mv "$new" "$file"
    is changed
fi
"""

_SUDO = r"""
begin sudo
# sudo passes files with a dot in their names over, and no account has a colon in its.
rule=/etc/sudoers.d/firstlight-$(printf %s "$user" | tr . :)
new=$rule.new
if [ "$user" = root ]; then is ok
elif [ "$sudo" = password ]; then
    if ! [ -e "$rule" ]; then is ok
    elif [ "$check" = 1 ]; then is would
    else rm -f "$rule"; is changed
    fi
elif [ -f "$rule" ] && [ "$(cat "$rule")" = "$user ALL=(ALL:ALL) NOPASSWD: ALL" ]; then is ok
elif [ "$check" = 1 ]; then is would
else
    trap 'rm -f "$new"' EXIT
    (umask 227; rm -f "$new"; printf '%s ALL=(ALL:ALL) NOPASSWD: ALL\n' "$user" | cat > "$new")
    visudo -cqf "$new"
    mv "$new" "$rule"
    is changed
fi
"""

_PYTHON = r"""
begin python
if ! command -v python3 > /dev/null; then
    if [ "$check" = 1 ]; then is would
    else
        command -v apt-get > /dev/null || refuse "python3 is missing and there is no apt-get to install it"
        install() { DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3 > /dev/null; }
        install 2> /dev/null || { apt-get update -qq > /dev/null; install; }
        command -v python3 > /dev/null || refuse "apt-get installed python3, and there is none: look at /usr/bin"
        is changed
    fi
else
    python3 -c "import sys; sys.exit(sys.version_info < $python)" ||
        refuse "$(python3 --version 2>&1) is older than $python, which the modules need: upgrade the system"
    is ok
fi
"""

_HOSTNAME = r"""
begin hostname
if [ -z "$name" ]; then is ok
elif [ "$(uname -n)" = "$name" ] && [ "$(cat /etc/hostname)" = "$name" ] && getent hosts "$name" > /dev/null; then is ok
elif [ "$check" = 1 ]; then is would
else
    # A line is only added: a full disk cannot cost the file. Without it sudo complains at every call.
    awk -v name="$name" '{ for (i = 2; i <= NF; i++) if ($i == name) found = 1 } END { exit !found }' /etc/hosts ||
        printf '127.0.1.1\t%s\n' "$name" | cat >> /etc/hosts
    if [ "$(cat /etc/hostname)" != "$name" ]; then
        new=/etc/hostname.new
        trap 'rm -f "$new"' EXIT
        printf '%s\n' "$name" | cat > "$new"  # there is room
        hostnamectl set-hostname "$name" 2> /dev/null || cat "$new" > /etc/hostname
        rm -f "$new"
    fi
    [ "$(uname -n)" = "$name" ] || printf '%s\n' "$name" > /proc/sys/kernel/hostname
    is changed
fi
"""

_KEYS_ONLY = r"""
begin 'password login'
file=/etc/ssh/sshd_config.d/00-firstlight.conf
PATH=$PATH:/usr/sbin:/sbin
mkdir -p /run/sshd
effective() { sshd -T -C "user=$user,host=localhost,addr=127.0.0.1" | awk -v "name=$1" '$1 == name { print $2 }'; }
off() { [ "$(effective passwordauthentication)" = no ] && [ "$(effective kbdinteractiveauthentication)" = no ]; }
if off; then is ok
elif [ "$check" = 1 ]; then is would
else
    new=$file.new
    trap 'rm -f "$new"' EXIT
    printf 'PasswordAuthentication no\nKbdInteractiveAuthentication no\n' | cat > "$new"
    mv "$new" "$file"
    # The first value counts, and a main file without Include or with a Match counts more than ours.
    if ! sshd -t || ! off; then
        rm -f "$file"
        refuse "sshd keeps password login on although $file says no: look for Include and Match in /etc/ssh/sshd_config"
    fi
    systemctl reload ssh 2> /dev/null || systemctl reload sshd
    is changed
fi
"""


def key_script(wanted: Wanted) -> str:
    """The script that runs as the user and authorises the operator's key."""
    parts = _PUBLIC.fullmatch(wanted.public_key)
    blob = f"{parts['kind']} {parts['blob']}" if parts else wanted.public_key
    return _script({"key": blob, "line": wanted.public_key, "check": wanted.check}, _KEY)


def root_script(wanted: Wanted, hostname: str | None) -> str:
    """The script that runs as root and sets up sudo, Python and the host name."""
    name = hostname if wanted.hostnames and hostname else ""
    values: dict[str, str | bool] = {"user": wanted.user, "sudo": wanted.sudo, "check": wanted.check, "name": name}
    return _script({**values, "python": f"({PYTHON[0]}, {PYTHON[1]})"}, _SUDO, _PYTHON, _HOSTNAME)


def password_login_script(wanted: Wanted) -> str:
    """The script that runs as root to disable password login; run it only after the key has been seen to work."""
    return _script({"user": wanted.user, "check": wanted.check}, _KEYS_ONLY)


def _script(values: dict[str, str | bool], *parts: str) -> str:
    settings = "\n".join(
        f"{name}={int(value) if isinstance(value, bool) else shlex.quote(value)}" for name, value in values.items()
    )
    return "".join([_HEAD, settings, "\n", *parts])


def read_steps(out: str) -> tuple[dict[str, str], str]:
    """Parse the script's output into the state of each step and the name of the step begun last."""
    steps: dict[str, str] = {}
    begun = ""
    for line in out.splitlines():
        words = line.removeprefix("@ ").rpartition(" ")
        if line.startswith("@ ") and words[2] == "begin":
            begun = words[0]
        elif line.startswith("@ ") and words[2] in _STEPS:
            steps[words[0]] = _STEPS[words[2]]
    return steps, begun


def evaluate_failure(step: str, err: str) -> Fault:
    """Return the fault of a script that ended early, based on its standard error."""
    if any(text in err for text in _NO_SPACE):
        return full_disk(step)
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return step_failed(step, " ".join(lines[-2:])[:300])
