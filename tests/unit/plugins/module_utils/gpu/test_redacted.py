# SPDX-License-Identifier: Apache-2.0
"""A text from which names and secrets were taken is evaluated as the whole text is, whatever the machine's health."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture, diagnose
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected, expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.redact import redact_raw
from hypothesis import given
from hypothesis import strategies as st

from firstlight_lab.captures import captures
from firstlight_lab.nvidia import known_profiles
from tests.unit.examples import examples

pytestmark = pytest.mark.slow  # every machine with every fault

HARDWARE = Path(__file__).parents[5] / "catalog" / "hardware"
FAULTS = (
    "fabric_manager_dead",
    "gpu_busy",
    "gpu_lost:0",
    "device_handle_error:0",
    "requires_reset:0",
    "xid:gpu=0,number=79",
    "xid:gpu=0,number=94",
    "pcie_degraded:0",
    "nvlink_errors:gpu=0,links=1.2",
    "nvlink_inactive:gpu=0,links=1",
    "ecc_uncorrected:0",
    "throttled:0",
    "wrong_name:0",
    "mig_enabled:0",
    "remap_failed:0",
    "persistence_off:0",
)


@functools.cache
def hardware(profile: str) -> Expected:
    return expected_of(profile, yaml.safe_load((HARDWARE / f"{profile}.yml").read_text()))


def verdicts(texts: dict[str, tuple[str, str]], profile: str) -> list[tuple[str, str]]:
    told = [Capture(name, "gpu0", text, kind) for name, (kind, text) in texts.items()]
    return [(one["id"], one["verdict"]) for one in diagnose(told, hardware(profile))["checks"]]


def redacted(texts: dict[str, tuple[str, str]], key: str, *, anonymous: bool) -> dict[str, tuple[str, str]]:
    raw = {name: {"text": text} for name, (_, text) in texts.items()}
    options = {"key": key, "anonymous": anonymous, "names": {"gpu0": "host1"}, "label": "host1"}
    done = redact_raw(raw, options, "gpu0")
    return {name: (kind, done[name]["text"]) for name, (kind, _) in texts.items()}


def texts_of(profile: str, faults: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    return {name: (one.kind, one.text) for name, one in captures(profile, faults).items()}


@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("profile", ["gb10", "h100-pcie", "h100-sxm-8"])
def test_a_healthy_machine_is_evaluated_the_same(profile: str, anonymous: bool) -> None:
    texts = texts_of(profile, ())
    assert verdicts(redacted(texts, "key", anonymous=anonymous), profile) == verdicts(texts, profile)


@examples(8)
@given(
    profile=st.sampled_from(known_profiles()),
    faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3, unique=True).map(tuple),
    key=st.text(min_size=1, max_size=8),
    anonymous=st.booleans(),
)
def test_a_faulty_machine_is_evaluated_the_same(
    profile: str, faults: tuple[str, ...], key: str, anonymous: bool
) -> None:
    texts = texts_of(profile, faults)
    assert verdicts(redacted(texts, key, anonymous=anonymous), profile) == verdicts(texts, profile)


def test_what_names_a_device_is_gone_from_every_text() -> None:
    texts = texts_of("h100-sxm-8", ())
    done = redacted(texts, "key", anonymous=True)
    uuids = {word.strip("()") for word in texts["smi-list"][1].split() if word.startswith("GPU-")}
    assert len(uuids) == 8
    for name, (_, text) in done.items():
        assert not any(uuid in text for uuid in uuids), name
        assert "gpu0 " not in text, name
