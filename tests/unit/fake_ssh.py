# SPDX-License-Identifier: Apache-2.0
"""A stand-in for ssh: it notes its words, and what it would run on a host it runs here."""

from __future__ import annotations

from pathlib import Path

SCRIPT = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done >> {log}
for last in "$@"; do :; done
case " $* " in
  *" {gone} "*) cat > /dev/null; echo "ssh: connect to host {gone} port 22: Connection refused" >&2; exit 255 ;;
esac
exec sh -c "$last"
"""
GONE = "gone.example"
"""It takes what is sent before it fails: of an ssh that ends while it writes, Ansible may not hear why."""


def write_ssh(directory: Path) -> Path:
    """The program; `words` beside it is what it was called with. The host GONE does not answer it."""
    program = directory / "ssh"
    program.write_text(SCRIPT.format(log=directory / "words", gone=GONE), encoding="utf-8")
    program.chmod(0o755)
    return program


def words_of(program: Path) -> list[str]:
    noted = program.with_name("words")
    return noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
