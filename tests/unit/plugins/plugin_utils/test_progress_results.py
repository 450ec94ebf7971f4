# SPDX-License-Identifier: Apache-2.0
"""What is said of a result, and of a host that does not answer."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.results import (
    HIDDEN_MESSAGE,
    changed_items,
    item_label,
    message_lines,
    ssh_command,
    unreachable_check,
    unreachable_reason,
)


class TestMessages:
    def test_only_the_message_is_shown(self) -> None:
        result = {"msg": "one\ntwo", "invocation": {"module_args": {"token": "hunter2"}}, "stdout": "hunter2"}
        assert message_lines(result) == ["one", "two"]

    @pytest.mark.parametrize("result", [{"censored": "hidden"}, {"_ansible_no_log": True, "msg": "hunter2"}])
    def test_what_is_censored_stays_censored(self, result: dict[str, Any]) -> None:
        assert message_lines(result, verbose=True) == [HIDDEN_MESSAGE]

    def test_a_command_without_words(self) -> None:
        result = {"msg": "non-zero return code", "rc": 2, "stderr": "no such file"}
        plain, verbose = message_lines(result), message_lines(result, verbose=True)
        assert plain == ["The command ended with code 2; run again with -v to see its output."]
        assert verbose == ["The command ended with code 2.", "stderr: no such file"]

    @pytest.mark.hostile
    def test_a_host_that_hangs_is_told_from_one_that_does_not_answer(self) -> None:
        (line,) = message_lines({"msg": "Task failed: Timed out after 300 second(s).", "timedout": {"period": 300}})
        assert line.startswith(
            "The host accepted the connection and then did nothing for 300 s, expected an answer: look for"
        )

    def test_no_message_at_all(self) -> None:
        assert message_lines({}) == ["The module gave no message; run again with -vvv to see what it did."]

    def test_failed_items_are_named(self) -> None:
        result = {
            "msg": "One or more items failed",
            "results": [
                {"item": "a", "ansible_loop_var": "item"},
                {"failed": True, "port": "enp1", "ansible_loop_var": "port", "msg": "down\nbring it up"},
                {"failed": True, "_ansible_item_label": "third", "msg": "gone"},
                {"failed": True, "item": {"token": "hunter2"}, "msg": "refused"},
                {"failed": True, "_ansible_no_log": True, "item": "hunter2", "msg": "hunter2"},
                "squashed",
            ],
        }
        assert message_lines(result) == [
            "enp1: down",
            "  bring it up",
            "third: gone",
            "item 4: refused",
            f"item 5: {HIDDEN_MESSAGE}",
        ]

    def test_changed_items_are_counted(self) -> None:
        assert changed_items({"results": [{"changed": True}, {}, "x"]}) == "1 of 3 items"
        assert changed_items({"changed": True}) == ""

    def test_an_empty_label_is_counted(self) -> None:
        assert item_label({"item": " "}, 2) == "item 2"
        assert item_label({"item": 7}, 2) == "7"


class TestUnreachable:
    @pytest.mark.parametrize(
        "layers",
        [
            "",
            "Failed to connect to the host via ssh: ",
            "Task failed: Failed to connect to the host via ssh: ",
            'Data could not be sent to remote host "10.0.0.2". Make sure this host can be reached over ssh: ',
        ],
    )
    def test_the_reason_is_what_ssh_said(self, layers: str) -> None:
        said = "ssh: connect to host 10.0.0.2 port 22: Connection refused"
        assert unreachable_reason([layers + said]) == (f"Reason: {said}",)

    @pytest.mark.parametrize(
        ("reason", "check"),
        [
            ("ssh: connect to host x port 22: Connection timed out", "power and cable"),
            ("me@x: Permission denied (publickey).", "user and key"),
            ("Host key verification failed.", "known_hosts"),
            ("ssh: Could not resolve hostname x: Name or service not known", "ansible_host"),
        ],
    )
    def test_what_to_check_depends_on_the_reason(self, reason: str, check: str) -> None:
        assert check in unreachable_check([reason])

    @pytest.mark.parametrize(
        ("variables", "command"),
        [
            ({}, "ssh spark2"),
            ({"ansible_host": "10.0.0.2", "ansible_user": "me", "ansible_port": 22}, "ssh me@10.0.0.2"),
            (
                {
                    "ansible_ssh_private_key_file": "/keys/my key",
                    "ansible_port": 2222,
                    "ansible_ssh_common_args": "-F /lab/ssh_config -o ProxyCommand='x secret'",
                },
                "ssh -F /lab/ssh_config -i '/keys/my key' -p 2222 spark2",
            ),
        ],
    )
    def test_the_command_to_try(self, variables: dict[str, Any], command: str) -> None:
        assert ssh_command("spark2", variables) == command
