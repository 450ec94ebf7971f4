# SPDX-License-Identifier: Apache-2.0
"""Checks of the driver: its version, whether module, library and tool are of one release, and the module's flavour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...parsers.reading import Reading, of_kind
from ...versions import is_older
from ..check import Check, could_not_check, failed, passed
from ..expected import Expected

_KINDS = ("query-gpu", "smi-q", "smi-xml", "smi-table", "smi-version", "proc-version")
_VERSION_KINDS = ("smi-version", "proc-version")
_OLDEST = {"9.0": "525", "10.0": "570", "10.3": "580", "12.0": "570", "12.1": "580"}
"""The first driver branch that supports GPUs of this compute capability."""
_OPEN_ONLY = "10"
"""From this major compute capability on, the open module is the only one."""
_REBOOT = "reboot the host to load the installed module"


def check_driver(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """The checks of the driver by the readings of one host."""
    told = of_kind(readings, *_KINDS)
    checks = [check for reading in told for check in (*_version(reading, expected), *_flavour(reading, expected))]
    return [*checks, *_match(told)]


def _version(reading: Reading, expected: Expected) -> Iterator[Check]:
    oldest = _OLDEST.get(expected.compute_capability or "")
    wanted = expected.driver or (f"{oldest} or newer (nothing is pinned)" if oldest else "any (nothing is pinned)")
    version = reading.data.get("driver")
    if version is None:
        if reading.kind in _VERSION_KINDS:
            yield from _unversioned(reading, wanted)
        return
    if expected.driver and version != expected.driver:
        remedy = "move the host to its stack with `firstlight repin` or the playbook site.yml; a change needs a reboot"
        yield failed("driver.version", reading, wanted, version, remedy)
    elif oldest and is_older(version, oldest):
        yield failed("driver.version", reading, wanted, version, "install a driver that supports these GPUs")
    else:
        yield passed("driver.version", reading, wanted, version)


def _unversioned(reading: Reading, wanted: str) -> Iterator[Check]:
    """The verdict on a source that should state the version and does not."""
    if reading.data.get("loaded") is False:
        remedy = (
            "load the module (`modprobe nvidia`) and check `dmesg` for why it is not loaded; after a change, reboot"
        )
        yield failed("driver.version", reading, wanted, "no module is loaded", remedy)
    elif not reading.data.get("gpus"):
        said = [*(reading.data.get("trouble") or ()), *reading.problems]
        yield could_not_check("driver.version", reading, wanted, "; ".join(said[:4]) or "no version reported")


def _flavour(reading: Reading, expected: Expected) -> Iterator[Check]:
    flavour = reading.data.get("flavour")
    if reading.kind != "proc-version" or flavour is None:
        return
    major = (expected.compute_capability or "0").partition(".")[0]
    if int(major) >= int(_OPEN_ONLY):
        wanted = "the open kernel module, the only one for these GPUs"
        if flavour == "open":
            yield passed("driver.flavour", reading, wanted, flavour)
        else:
            yield failed("driver.flavour", reading, wanted, flavour, "install the packages of the open kernel module")
    else:
        yield passed("driver.flavour", reading, "the open or the proprietary kernel module", flavour)


def _match(readings: Sequence[Reading]) -> Iterator[Check]:
    """One verdict per source, and one between sources: all parts of a driver must be of one release."""
    wanted = "module, library and tool have the same version"
    seen: list[tuple[str, str, Reading]] = []
    for reading in readings:
        trouble = [line for line in reading.data.get("trouble") or () if "version mismatch" in line.lower()]
        if trouble:
            library = reading.data.get("library")
            words = trouble[0] + (f" (the library is {library})" if library else "")
            yield failed("driver.match", reading, wanted, words, _REBOOT)
        own = _parts(reading)
        yield from _agree(wanted, reading, own)
        between = [(part, version) for part, version, _ in seen]
        if own and between and not trouble:
            yield from _agree(wanted, reading, [*between, *own])
        seen += [(part, version, reading) for part, version in own]


def _parts(reading: Reading) -> list[tuple[str, str]]:
    """The version of each part of the driver, according to this source."""
    data = reading.data
    found = [("module", data.get("driver")), ("tool", data.get("tool")), ("library", data.get("library"))]
    firmware = {gpu["gsp_firmware_version"] for gpu in data.get("gpus") or () if gpu.get("gsp_firmware_version")}
    found += [("GPU firmware", version) for version in sorted(firmware)]
    return [(part, str(version)) for part, version in found if version]


def _agree(wanted: str, reading: Reading, parts: Sequence[tuple[str, str]]) -> Iterator[Check]:
    if len(parts) < 2:
        return
    versions = dict.fromkeys(version for _, version in parts)
    whole = max(versions, key=len)
    # The library's version lacks its last part: 590.48 is 590.48.01.
    if all(whole == version or whole.startswith(f"{version}.") for version in versions):
        yield passed("driver.match", reading, wanted, whole)
        return
    told = "; ".join(dict.fromkeys(f"{part} {version}" for part, version in parts))
    yield failed("driver.match", reading, wanted, told, _REBOOT)
