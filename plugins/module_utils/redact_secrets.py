# SPDX-License-Identifier: Apache-2.0
"""Redact passwords, tokens, keys and logins in tool output, found by their label, their position or their shape."""

from __future__ import annotations

import re

REMOVED = "<removed>"

MARK = "\ue000"
"""Placed after each escape sequence during redaction: its last letter would otherwise be taken as part of the next
word."""
ESCAPE = r"\x1b\[[0-9;?]{0,20}[A-Za-z]"
GAP = rf"(?:[^\S\n]|{ESCAPE}|{MARK}){{0,80}}"
"""White space within a line, and the colour codes that a tool may put there."""

_SENSITIVE = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|[_-]key"
    r"|credentials?|signature|\bsig|\bpsk|authorization|cookie|(?:\b|[_-])(?:pass|pw|auth))"
)
_QUOTED = r"\\?\"[^\"\n<]*\"?|\\?'[^'\n<]*'?|&(?:quot|apos);[^\n<]*?(?:&(?:quot|apos);|(?=[<\n]|\Z))"
"""Also as an escaped string within a string, and as XML entities."""

_SECRET = re.compile(
    rf"(?P<label>{_SENSITIVE}\\?(?:[\"']|&quot;)?{GAP}[=:]{GAP}[\[({{]?{GAP})"
    rf"(?P<value>(?:(?:bearer|basic|token|digest)[^\S\n]+)?(?:{_QUOTED}|[^\s,;&\"'<>{MARK}\x1b]+))",
    re.IGNORECASE,
)
_FLAG = re.compile(
    rf"(?P<label>(?<![\w-])--?(?=[A-Za-z])[\w-]{{0,60}}?{_SENSITIVE}[^\S\n]+)(?P<value>{_QUOTED}|(?!--)[^\s<>{MARK}\x1b]+)",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"(?P<label>(?<![\w-])(?:-u|--user|--proxy-user)(?:=|[^\S\n]+)[\"']?)(?P<value>[^\s:\"'<>]{1,100}:[^\s\"'<>]+)"
)
"""A name and a password in one word, as curl accepts them."""
_SHORT_FLAG = re.compile(
    r"(?P<label>\b(?:sshpass|mysql\w{0,10}|mariadb\w{0,10})\b[^\n<]{0,200}?[^\S\n]-p[^\S\n]?)(?P<value>[^\s<>]+)"
)
_TAG = re.compile(rf"(?P<label><\w{{0,40}}{_SENSITIVE}>)(?P<value>[^<\n]+)", re.IGNORECASE)
_BEARER = re.compile(r"(?P<label>\b(?:bearer|basic)[^\S\n]+)(?P<value>[\w+/=.~-]{16,})", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?P<label>\b[A-Za-z][\w+.-]{0,20}://)(?P<value>[^\s/\"'<>]{1,200})(?=@)")
_LABELLED = (_SECRET, _TAG, _FLAG, _LOGIN, _SHORT_FLAG, _BEARER, _URL_LOGIN)
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}|sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|hv[sb]\.[\w-]{16,}|npm_[A-Za-z0-9]{16,}"
    r"|dckr_pat_[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)
_PRIVATE_KEY = re.compile(
    r"(?P<label>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----).*?(?=-----END|\Z)", re.DOTALL
)


def without_secrets(text: str) -> str:
    """Return the text with everything that looks like a secret removed."""
    text = _PRIVATE_KEY.sub(lambda found: f"{found['label']}\n{REMOVED}\n", text)
    for pattern in _LABELLED:
        text = pattern.sub(lambda found: found["label"] + REMOVED, text)
    return _SHAPES.sub(REMOVED, text)
