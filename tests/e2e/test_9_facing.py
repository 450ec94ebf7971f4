# SPDX-License-Identifier: Apache-2.0
"""A cluster that faces clients, strangers and a monitoring host, from the first run, and then replicas in its place.

Nearly all tests are those of `make test-serving` (conftest.py has their order). Here the cluster comes into being by
runs that are interrupted and that tell all: they made the secrets which are looked for in what they told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import CHECKOUT
from interruptions import PHASES, end_what_goes_on, interrupt_at

from tests.serving.lab import FACING, Serving
from tests.serving.secrets import Told, with_token
from tests.serving.test_5_ray_serve import (
    test_a_replica_is_killed_under_load,
    test_nobody_is_let_in_without_the_key,
    test_ray_serve_answers_from_a_replica_on_each_node,
)
from tests.serving.test_6_monitoring import (
    monitor,
    test_a_fault_of_a_gpu_is_told_with_its_node,
    test_a_lost_rank_is_told_and_told_no_more_when_it_is_back,
    test_every_node_and_every_part_of_it_is_read,
    test_every_question_of_the_dashboard_has_an_answer,
    test_nobody_else_reads,
    test_nothing_is_wrong_while_nothing_is_wrong,
    test_promtool_takes_what_is_shipped,
)
from tests.serving.test_7_facing import (
    again,
    test_a_completion_is_streamed_through_tls,
    test_a_hundred_megabytes_are_refused_before_they_are_read,
    test_a_key_is_revoked_while_all_go_on,
    test_a_second_run_changes_nothing_and_is_cheap,
    test_a_secret_that_lies_about_is_found,
    test_a_stranger_reaches_ssh_and_the_endpoint,
    test_a_teardown_takes_all_of_it,
    test_ask_streams_an_answer,
    test_check_mode_says_the_same,
    test_only_a_key_is_let_in,
    test_plain_http_is_refused,
    test_secrets_are_nowhere,
    test_slow_connections_stop_nobody,
    test_the_last_words_of_a_run_are_a_command_that_works,
    test_the_monitoring_host_reads_the_metrics_and_a_stranger_does_not,
    test_what_is_not_listed_is_not_there,
    test_without_the_rules_a_stranger_reaches_all_of_it,
)

pytestmark = pytest.mark.facing

LAB = "e2e-facing"


@pytest.fixture(scope="module")
def rack(results: dict[str, Any]) -> Iterator[Serving]:
    """Four Sparks on which nothing serves yet."""
    made = Serving(CHECKOUT, LAB)
    try:
        made.command("firstlight", "lab", "up", "--name", LAB)
        yield made
        results["facing, seconds"] = {record.name: record.seconds for record in made.records.found}
    finally:
        made.command("firstlight", "lab", "down", "--name", LAB, fails=None)


@pytest.fixture(scope="module")
def told(rack: Serving, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The first runs: one killed in each of those phases, and one that ends."""
    rack.profile = FACING
    directory = tmp_path_factory.mktemp("told")
    words = with_token(directory)
    try:
        said = [interrupt_at(rack, phase, words, directory / phase) for phase in PHASES]
        said.append(rack.playbook("site.yml", *words).output)
    finally:
        end_what_goes_on(rack)
    rack.serves = True
    return Told("\n".join(said))


@pytest.fixture(scope="module")
def facing(rack: Serving, told: Told) -> Serving:
    """Two of the Sparks, with what faces others."""
    del told
    return rack


def test_runs_that_were_interrupted_are_finished_by_the_next(facing: Serving, again: str) -> None:
    assert "==> Recap" in again, "nothing was left to do"
    facing.assert_serves()


__all__ = [
    "again",
    "monitor",
    "test_a_completion_is_streamed_through_tls",
    "test_a_fault_of_a_gpu_is_told_with_its_node",
    "test_a_hundred_megabytes_are_refused_before_they_are_read",
    "test_a_key_is_revoked_while_all_go_on",
    "test_a_lost_rank_is_told_and_told_no_more_when_it_is_back",
    "test_a_replica_is_killed_under_load",
    "test_a_second_run_changes_nothing_and_is_cheap",
    "test_a_secret_that_lies_about_is_found",
    "test_a_stranger_reaches_ssh_and_the_endpoint",
    "test_a_teardown_takes_all_of_it",
    "test_ask_streams_an_answer",
    "test_check_mode_says_the_same",
    "test_every_node_and_every_part_of_it_is_read",
    "test_every_question_of_the_dashboard_has_an_answer",
    "test_nobody_else_reads",
    "test_nobody_is_let_in_without_the_key",
    "test_nothing_is_wrong_while_nothing_is_wrong",
    "test_only_a_key_is_let_in",
    "test_plain_http_is_refused",
    "test_promtool_takes_what_is_shipped",
    "test_ray_serve_answers_from_a_replica_on_each_node",
    "test_runs_that_were_interrupted_are_finished_by_the_next",
    "test_secrets_are_nowhere",
    "test_slow_connections_stop_nobody",
    "test_the_last_words_of_a_run_are_a_command_that_works",
    "test_the_monitoring_host_reads_the_metrics_and_a_stranger_does_not",
    "test_what_is_not_listed_is_not_there",
    "test_without_the_rules_a_stranger_reaches_all_of_it",
]
