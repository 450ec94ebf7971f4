# SPDX-License-Identifier: Apache-2.0
"""Redact tool output: remove secrets, and whatever identifies a machine, a network or a person.

Redaction runs on the host, before anything leaves it. Identifiers that are needed to follow one device through several
texts become pseudonyms: within one collection, the same value always gives the same pseudonym; across collections it
does not, because each has its own key, which is not kept. Pseudonyms have the shape of what they replace, so that
parsers accept them. All texts of a host are redacted together: a serial number that one text labels as such is also
removed from the others.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .redact_secrets import ESCAPE, GAP, MARK, without_secrets

REDACT_OPTION: dict[str, Any] = {
    "type": "dict",
    "options": {
        "key": {"type": "str", "required": True, "no_log": True},
        "anonymous": {"type": "bool", "default": False},
        "names": {"type": "dict", "default": {}},
        "label": {"type": "str", "default": ""},
    },
}
"""The option of a module that returns texts; `redact_raw` takes its value."""

_ESCAPE = re.compile(ESCAPE)

# --- serial numbers -----------------------------------------------------------------------------------------

_VALUE = rf"[^\s<>,;\"'()\[\]\x1b{MARK}][^\s<>,;\"'()\x1b]*"
_SERIAL_WORD = r"(?:\bserial|(?<=[a-z_])serial)(?:[ _-]?(?:number|num|no\.?))?|\bs/n"
_SERIAL = re.compile(
    rf"(?P<label>(?:serial(?:[ _-]?(?:number|num|no\.?))?|\bs/?n)[\"']?{GAP}[:=#>]{GAP}[\"']?)(?P<value>{_VALUE})",
    re.IGNORECASE,
)
_BARE_SERIAL = re.compile(
    rf"(?P<label>(?:{_SERIAL_WORD})(?:[:=#]?{GAP}\n[ \t]{{0,80}}(?=[\w-]{{6,40}}[ \t\r]*(?:\n|\Z))|[ \t|]{{1,40}}))"
    r"(?P<value>[A-Za-z0-9_-]{6,40})(?![\w:./-])",
    re.IGNORECASE,
)
"""One preceded by white space only, or on a line of its own."""
_SERIAL_HEADING = re.compile(r"[\"']?[\w. ]{0,40}serial(?:[ _.]?(?:number|num|no))?[\"']?", re.IGNORECASE)
_SERIAL_CELL = re.compile(r"[01]\d{12}")
"""A board's serial number as NVIDIA prints them, in a table that has lost its headings."""
_SERIAL_LETTERS = re.compile(r"(?!UNKNOWN|UNSUPPORTED|REMOVED|DEFAULT)[A-Z]{6,20}")
"""A serial number without digits: capitals other than the words printed in place of one."""
_LEARNT = re.compile(r"[A-Za-z0-9_-]{6,40}")
"""Serial numbers to search for in other texts: neither short numbers nor bus addresses."""

# --- device identifiers -------------------------------------------------------------------------------------

_HEX = "0-9A-Fa-f"
_UUID = re.compile(rf"(?<![\w])[{_HEX}]{{8}}(?:-[{_HEX}]{{4}}){{3}}-[{_HEX}]{{12}}(?!\w)")
_CUT_UUID = re.compile(rf"(?P<label>\b(?:GPU|MIG|VGPU|SWX|NVS)-)(?P<value>[{_HEX}][{_HEX}-]{{3,40}})(?!\w)")
"""The UUID of a device, possibly truncated."""
_PLAIN_UUID = re.compile(rf"(?<!\w)[{_HEX}]{{32}}(?!\w)")
"""A machine ID or boot ID."""
_AFTER = r"(?:(?<=[G-Zg-z_]:)|(?<=[GUgu][Ii][Dd]:)|(?<=[Nn][Oo][Dd][Ee]:)|(?<![\w:.]))"
"""Where colon-separated groups of digits may start: not inside other groups, but after a label that ends with a
colon."""
_GUID = re.compile(rf"{_AFTER}[{_HEX}]{{4}}(?::[{_HEX}]{{4}}){{3}}(?!\w|:[{_HEX}])")
_LONG_HEX = re.compile(rf"(?<!\w)0[xX](?!0000|[fF]{{4}})[{_HEX}]{{16}}(?!\w)")
"""A GUID without a label. Memory addresses and flag sets have the same length, but start differently."""
_GUID_LABEL = re.compile(
    rf"(?P<label>(?:guids?|pdi)\b[\"']?[\s:=>\"']{{1,60}})(?P<value>0x(?:0000|f{{4}})[{_HEX}]{{12}}|[{_HEX}]{{16}})(?!\w)",
    re.IGNORECASE,
)
"""GUIDs that only their label identifies."""
_OCTETS = re.compile(rf"(?<!\w)[{_HEX}]{{2}}(?P<sep>[:-])[{_HEX}]{{2}}(?:(?P=sep)[{_HEX}]{{2}}){{4,}}(?!\w)")
"""A MAC address of 6, 8 or, on InfiniBand, 20 octets, or several in a row, as a firewall logs them."""
_MAC_IN_NAME = re.compile(rf"(?P<label>\b[eE][nN][xX])(?P<value>[{_HEX}]{{12}})(?!\w)")
"""A network interface named after its MAC address."""
_MAC_LABEL = re.compile(
    rf"(?P<label>\b(?:mac|hwaddr|hw_addr|lladdr|ether)(?:[ _]?addr(?:ess)?)?[ \t:=\"']{{1,20}})"
    rf"(?P<value>[{_HEX}]{{12}})(?!\w)",
    re.IGNORECASE,
)
_MAC_QUADS = re.compile(
    rf"(?<![\w.-])(?=[\d.-]*[A-Fa-f])[{_HEX}]{{4}}(?P<sep>[.-])[{_HEX}]{{4}}(?P=sep)[{_HEX}]{{4}}(?![\w-]|\.\w)"
)
"""MAC addresses as switches write them."""

# --- addresses ----------------------------------------------------------------------------------------------

_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(rf"{_AFTER}[{_HEX}]{{0,4}}(?::[{_HEX}]{{0,4}}){{2,7}}(?!\w)")
_UNICAST = ipaddress.IPv6Network("2000::/3")
_LOCAL_USE = ipaddress.IPv6Network("fc00::/7")
_RESERVED = 240 << 24
"""A reserved IPv4 range that no host uses, so that its addresses are easily distinguished from real ones."""

# --- people -------------------------------------------------------------------------------------------------

_HOME = re.compile(r"(?P<label>/(?:home|Users)/)(?P<value>[\w.-]+)")
_PERSON = re.compile(r"(?<![\w.+-])(?P<value>[A-Za-z_][\w.+-]{0,63})@(?=[A-Za-z0-9])")
"""A login or an email address."""


class Redaction:
    """The redaction of one collection; hosts given the same key produce the same pseudonyms."""

    def __init__(
        self, key: str, *, anonymous: bool = False, names: Mapping[str, str] | None = None, serials: Iterable[str] = ()
    ) -> None:
        self._key = key.encode()
        # A cache: a log names the same few devices again and again.
        self._known: dict[tuple[str, int], str] = {}
        self._anonymous = anonymous
        # Case-sensitive: a host gpu0 is not the GPU0 of a table.
        self._names = {name: label for name, label in (names or {}).items() if name} if anonymous else {}
        # Including a domain that follows the name, as it identifies the owner.
        self._name_pattern = _any_of(self._names, r"(?:\.[A-Za-z][A-Za-z0-9-]*)*")
        self._serial_pattern = _any_of(one for one in serials if _is_telling(one))

    def __call__(self, text: str) -> str:
        """Return the text without secrets, with pseudonyms for devices and, if anonymous, for hosts and people."""
        text = without_secrets(_marked(text))
        if self._name_pattern:
            text = self._name_pattern.sub(lambda found: self._names[found["word"]], text)
        if self._anonymous:
            text = _HOME.sub(lambda found: f"{found['label']}user-{self._digits(found['value'], 6)}", text)
            text = _PERSON.sub(lambda found: f"user-{self._digits(found['value'], 6)}@", text)
        text = self._without_serials(text)
        text = self._without_device_numbers(text)
        return _IPV4.sub(self._ipv4, _IPV6.sub(self._ipv6, text)).replace(MARK, "")

    def _digits(self, value: str, length: int) -> str:
        """Return hexadecimal digits that stand for this value."""
        if (value, length) in self._known:
            return self._known[value, length]
        told, block = "", 0
        while len(told) < length:
            told += hmac.new(self._key, f"{block}:{value.lower()}".encode(), hashlib.sha256).hexdigest()
            block += 1
        self._known[value, length] = told[:length]
        return told[:length]

    # -- serial numbers --

    def _serial(self, value: str) -> str:
        return f"serial-{self._digits(value, 12)}"

    def _without_serials(self, text: str) -> str:
        text = _SERIAL.sub(
            lambda found: (
                found["label"] + (self._serial(found["value"]) if _is_number(found["value"]) else found["value"])
            ),
            text,
        )
        text = _BARE_SERIAL.sub(
            lambda found: (
                found["label"] + (self._serial(found["value"]) if _is_telling(found["value"]) else found["value"])
            ),
            text,
        )
        if self._serial_pattern:
            text = self._serial_pattern.sub(lambda found: self._serial(found[0]), text)
        return _with_columns(text, self._serial)

    # -- device identifiers --

    def _without_device_numbers(self, text: str) -> str:
        for pattern in (_UUID, _PLAIN_UUID, _GUID, _OCTETS, _MAC_QUADS):
            text = pattern.sub(lambda found: self._same_shape(found[0]), text)
        text = _CUT_UUID.sub(
            # A complete UUID has already been replaced.
            lambda found: (
                found["label"]
                + (found["value"] if _UUID.fullmatch(found["value"]) else self._same_shape(found["value"]))
            ),
            text,
        )
        text = _LONG_HEX.sub(lambda found: self._same_shape(found[0]), text)
        for pattern in (_GUID_LABEL, _MAC_IN_NAME, _MAC_LABEL):
            text = pattern.sub(lambda found: found["label"] + self._same_shape(found["value"]), text)
        return text

    def _same_shape(self, value: str) -> str:
        """Replace the hexadecimal digits and keep the separators; all zeros or all ones identify no device."""
        prefix, body = (value[:2], value[2:]) if value[:2].lower() == "0x" else ("", value)
        plain = body.replace(":", "").replace("-", "").replace(".", "").lower()
        if not plain.strip("0") or not plain.strip("f"):
            return value
        digits = iter(self._digits(plain, len(plain)))
        return prefix + "".join(one if one in ":-." else next(digits) for one in body)

    # -- addresses --

    def _ipv4(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv4Address(found[0])
        except ValueError:  # a version with four parts
            return found[0]
        if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_reserved:
            return found[0]
        if address.is_global or self._anonymous:
            return str(ipaddress.IPv4Address(_RESERVED + int(self._digits(str(address), 6), 16)))
        return found[0]

    def _ipv6(self, found: re.Match[str]) -> str:
        """Replace link-local and global addresses, and unique local ones that contain a MAC address.

        If anonymous, all unique local addresses are replaced. Any other address is kept, as is one without an interface
        identifier.
        """
        written, end = (
            (found[0][:-1], ":") if found[0].endswith(":") and not found[0].endswith("::") else (found[0], "")
        )
        try:
            address = ipaddress.IPv6Address(written)
        except ValueError:  # a time, or an address on the PCI bus
            return found[0]
        if address.ipv4_mapped:
            within = str(address.ipv4_mapped)
            hidden = _IPV4.sub(self._ipv4, within)
            return found[0] if hidden == within else f"::ffff:{hidden}{end}"
        interface = int(address) & ((1 << 64) - 1)
        has_mac = (interface >> 24) & 0xFFFF == 0xFFFE
        own = address in _LOCAL_USE and (has_mac or self._anonymous)
        if not interface or not (address.is_link_local or address in _UNICAST or own):
            return found[0]
        network = 0xFE80 << 48 if address.is_link_local else 0xFD << 56 | int(self._digits(str(address), 10), 16)
        return str(ipaddress.IPv6Address(network << 64 | int(self._digits(f"{interface:016x}", 16), 16))) + end


def redact_raw(raw: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any], own_name: str = "") -> dict[str, Any]:
    """Redact texts by name, each with its metadata.

    `options` is a value of REDACT_OPTION. `own_name` is the machine's own hostname, which the inventory may not use.
    """
    names = {str(name): str(label) for name, label in (options.get("names") or {}).items()}
    # A machine is also known by the first label of its name.
    names = {name.partition(".")[0]: label for name, label in names.items() if name[:1].isalpha()} | names
    if own_name and options.get("label"):
        names |= dict.fromkeys((own_name, own_name.partition(".")[0]), str(options["label"]))
    serials = {one for entry in raw.values() for one in serials_in(str(entry.get("text") or ""))}
    redaction = Redaction(str(options["key"]), anonymous=bool(options.get("anonymous")), names=names, serials=serials)
    return {
        redaction(name): {key: redaction(value) if isinstance(value, str) else value for key, value in entry.items()}
        for name, entry in raw.items()
    }


def redact_text(text: str, options: Mapping[str, Any]) -> str:
    """Redact one text like `redact_raw`."""
    return str(redact_raw({"text": {"text": text}}, options)["text"]["text"])


def serials_in(text: str) -> set[str]:
    """Return the serial numbers that the text labels as such."""
    text = _marked(text)
    found = {one["value"] for pattern in (_SERIAL, _BARE_SERIAL) for one in pattern.finditer(text)}

    def note(value: str) -> str:
        found.add(value)
        return value

    _with_columns(text, note)
    return {one for one in found if _is_telling(one)}


def _is_number(value: str) -> bool:
    """Whether this is a serial number rather than a word in its place or the zeros of a board without one."""
    return any(one.isdigit() for one in value.strip("0")) or bool(_SERIAL_LETTERS.fullmatch(value))


def _is_telling(value: str) -> bool:
    """Whether this is specific enough to be searched for in other texts without false matches."""
    return bool(_LEARNT.fullmatch(value)) and sum(one.isdigit() for one in value) >= 4 and len(set(value)) > 2


def _with_columns(text: str, replace: Callable[[str], str]) -> str:
    """Pass the cells of comma-separated columns headed as serial numbers through `replace`."""
    columns: list[int] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        cells = line.split(",")
        if len(cells) == 1:
            continue
        headed = [place for place, cell in enumerate(cells) if _SERIAL_HEADING.fullmatch(cell.strip())]
        columns = headed or columns
        for place, cell in enumerate(cells):
            value = cell.strip(" \t\r\"'")
            if _SERIAL_CELL.fullmatch(value) or (place in columns and not headed and _is_number(value)):
                cells[place] = cell.replace(value, replace(value))
        lines[number] = ",".join(cells)
    return "\n".join(lines)


def _marked(text: str) -> str:
    return _ESCAPE.sub(lambda found: found[0] + MARK, text.replace(MARK, ""))


def _any_of(words: Iterable[str], after: str = "") -> re.Pattern[str] | None:
    """Return a pattern for these words as whole words, optionally followed by `after`; None if there are none."""
    # Longest first, as one may be the start of another.
    parts = [re.escape(word) for word in sorted(set(words), key=lambda word: (-len(word), word))]
    known = rf"(?<![A-Za-z0-9_-])(?P<word>{'|'.join(parts)}){after}(?![A-Za-z0-9_-])"
    return re.compile(known) if parts else None
