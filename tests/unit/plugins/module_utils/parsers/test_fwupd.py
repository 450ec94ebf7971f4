# SPDX-License-Identifier: Apache-2.0
"""fwupd's history: what was updated, from what to what, when and with what result."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.fwupd import parse_history

FAILED = """\
{
  "Devices" : [
    {
      "Name" : "System Firmware",
      "DeviceId" : "1dff1af1864178c9721f53eb23dfd0a00ed2c863",
      "Guid" : [
        "a93d4a5b-9ea6-4b38-b118-bd11484e3f6a"
      ],
      "Plugin" : "uefi_capsule",
      "Version" : "2.8.1",
      "VersionFormat" : "dell-bios",
      "Created" : 1785411901,
      "Modified" : 1785488470,
      "UpdateState" : 3,
      "UpdateError" : "failed to run update on reboot: expected 2.45.0 and got 2.8.1",
      "Releases" : [
        {
          "Version" : "2.45.0"
        }
      ]
    }
  ]
}
"""
"""fwupd 2.0.20 on Ubuntu 22.04, from fwupd/fwupd#10772 of 2026-07-31, with the release of its history."""

NONE = '{\n  "Error" : {\n    "Domain" : "FwupdError",\n    "Code" : 9,\n    "Message" : "No history"\n  }\n}\n'


def test_an_update_that_failed_at_the_reboot() -> None:
    assert parse_history(FAILED) == [
        {
            "device": "System Firmware",
            "before": "2.8.1",
            "after": "2.45.0",
            "at": "2026-07-31T09:01:10Z",
            "state": "failed",
        }
    ]


def test_a_host_without_a_history_has_none() -> None:
    assert parse_history(NONE) == []
    assert parse_history("{}") == []


def test_updates_are_told_in_their_order_and_without_what_is_not_told() -> None:
    devices = [
        {"Name": "EC", "Version": "1", "Modified": 1785488470, "UpdateState": 2, "Releases": [{"Version": "2"}]},
        {"DeviceId": "abc", "Created": 1785411901, "UpdateState": "needs-reboot", "Releases": []},
        {"UpdateState": 99, "Modified": True},
        "not a device",
    ]
    told = parse_history(json.dumps({"Devices": devices}))
    assert [(one["device"], one["before"], one["after"], one["at"], one["state"]) for one in told] == [
        ("a device without a name", "an unknown version", "an unknown version", None, "99"),
        ("abc", "an unknown version", "an unknown version", "2026-07-30T11:45:01Z", "needs-reboot"),
        ("EC", "1", "2", "2026-07-31T09:01:10Z", "success"),
    ]


@pytest.mark.parametrize("text", ["", "fwupdmgr: command not found", "[]", "7"])
def test_what_is_no_answer_of_fwupds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"fwupd's history is not (a )?JSON"):
        parse_history(text)
