# SPDX-License-Identifier: Apache-2.0
"""The secrets of a cluster by value, and where they are looked for."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.serving.lab import Serving

KEYS = "/etc/firstlight/endpoint"
TELL_ALL = ("-vvv", "--diff")
SHARE_TOKEN = "ShareTokenOfThisVeryTest" * 2
KNOWN_TO_ROOT = {"the engine's key in the environment in docker inspect firstlight-server"}
"""The engine takes its key from its environment, which Docker tells whoever may use it: that is root (docs/site.md)."""
SEARCH = """
import json, os, subprocess, sys
needles = {name: [value.encode() for value in values] for name, values in json.load(sys.stdin).items()}
found = set()
def look(where, data):
    for name, values in needles.items():
        if any(value in data for value in values):
            found.add(f"{name} in {where}")
def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(64 << 20)
    except OSError:
        return b""
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        look(f"the command line of process {pid}", read(f"/proc/{pid}/cmdline"))
look("the journal", run("journalctl", "--no-pager", "--output=json", "--all"))
look("units", run("systemctl", "cat", "--no-pager", "*.service", "firstlight-*"))
look("the environment of units", run("systemctl", "show", "--property=Environment,ExecStart,ExecStartPre", "*.service"))
containers = run("docker", "ps", "--all", "--format={{.Names}}").decode().split()
for container in containers:
    for document in json.loads(run("docker", "inspect", container)):
        env = document["Config"].pop("Env", None) or []
        look(f"docker inspect {container}", json.dumps(document).encode())
        look(f"the environment in docker inspect {container}", json.dumps(env).encode())
    look(f"docker logs {container}", run("docker", "logs", container))
for top in ("/etc", "/run", "/var", "/usr/local", "/tmp", "/root", "/home", "/dev/shm", "/opt", "/srv"):
    for directory, names, files in os.walk(top):
        names[:] = [one for one in names if os.path.join(directory, one) not in ("/var/lib/docker", "/run/docker")]
        try:
            closed = not os.stat(directory).st_mode & 0o001
        except OSError:
            continue
        if closed:
            names.clear()
            continue
        for name in files:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path) and os.stat(path).st_mode & 0o004:
                look(path, read(path))
print(json.dumps(sorted(found)))
"""


@dataclass(frozen=True)
class Told:
    """All that a run of site.yml has said which brought a model to every node, and the secret that it had."""

    output: str
    share_token: str = SHARE_TOKEN


def with_token(directory: Path) -> tuple[str, ...]:
    """Words for a run that says all it has to say, with a token of the share that is known."""
    path = directory / "token.json"
    path.write_text(json.dumps({"weights_share_token": SHARE_TOKEN}))
    return ("-e", f"@{path}", *TELL_ALL)


def secrets_of(serving: Serving, keys: tuple[str, ...]) -> dict[str, str]:
    """What nobody may see, by name. Of a private key its first line of text is enough."""

    def text(path: str) -> str:
        return serving.inside(serving.profile.head, f"cat {path}").strip()

    tokens = serving.inside(serving.profile.head, "find /etc/firstlight -name '*.token'").split()
    found = {
        **{token: text(token) for token in tokens},
        "the engine's key": text("/etc/firstlight/server.env").partition("VLLM_API_KEY=")[2].split()[0],
        **{f"the key {name}": text(f"{KEYS}/keys/{name}") for name in keys},
        "the authority's private key": _body(text(f"{KEYS}/ca.key")),
        "the endpoint's private key": _body(text(f"{KEYS}/server.pem")),
    }
    assert all(len(value) >= 32 for value in found.values()), {name: len(value) for name, value in found.items()}
    return found


def _body(pem: str) -> str:
    """The text of the private key that is in there."""
    block = re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)\n-----END", pem, re.DOTALL)
    assert block, "there is no private key"
    return max(block[1].splitlines(), key=len)


def forms(value: str) -> list[str]:
    """The value as it is, and in base64 wherever in a longer text it begins."""
    shifted = []
    for lead in range(3):
        encoded = base64.b64encode(b"\0" * lead + value.encode()).decode().rstrip("=")
        shifted.append(encoded[4 if lead else 0 : -2])
    return [value, *shifted]


def seen_on(serving: Serving, node: str, secrets: Mapping[str, str]) -> list[str]:
    """Where on a node somebody who is not root, or who reads a log, could see one of them."""
    needles = json.dumps({name: forms(value) for name, value in secrets.items()})
    engine = serving.lab.engine()
    text = engine.docker("exec", "-i", serving.lab.container(node), "python3", "-c", SEARCH, stdin=needles)
    return [str(one) for one in json.loads(text)]


def seen_in(text: str, secrets: Mapping[str, str]) -> list[str]:
    """Which of them a text has."""
    return [name for name, value in secrets.items() if any(form in text for form in forms(value))]


def text_of(directory: Path) -> str:
    """All that is in a directory."""
    return "\n".join(path.read_text(errors="replace") for path in sorted(directory.rglob("*")) if path.is_file())
