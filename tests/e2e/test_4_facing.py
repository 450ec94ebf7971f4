# SPDX-License-Identifier: Apache-2.0
"""What faces clients, strangers and a monitoring host, and then replicas, on nodes that other tests have left.

`make test-serving` runs these and more of them in a lab of their own. Here it all comes into being by runs that are
interrupted and that tell all: they made the secrets which are looked for in what they told. conftest.py has the order.
"""

from __future__ import annotations

from tests.serving.lab import Serving
from tests.serving.test_5_ray_serve import (
    test_a_replica_is_killed_under_load,
    test_nobody_is_let_in_without_the_key,
    test_ray_serve_answers_from_a_replica_on_each_node,
)
from tests.serving.test_6_monitoring import (
    monitor,
    test_a_fault_of_a_gpu_is_told_with_its_node,
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
    test_only_a_key_is_let_in,
    test_plain_http_is_refused,
    test_secrets_are_nowhere,
    test_slow_connections_stop_nobody,
    test_the_last_words_of_a_run_are_a_command_that_works,
    test_the_monitoring_host_reads_the_metrics_and_a_stranger_does_not,
    test_what_is_not_listed_is_not_there,
)


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
    "test_a_replica_is_killed_under_load",
    "test_a_second_run_changes_nothing_and_is_cheap",
    "test_a_secret_that_lies_about_is_found",
    "test_a_stranger_reaches_ssh_and_the_endpoint",
    "test_a_teardown_takes_all_of_it",
    "test_ask_streams_an_answer",
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
]
