# SPDX-License-Identifier: Apache-2.0
"""Ways to serve, and the faults whose breakage would hurt most, on the cluster that the other tests leave serving.

`make test-serving` runs all of them in a lab of their own. Here they come in this order, in which each ends where the
next one starts; the other ways to serve are last, because the cluster does not come back from them.
"""

from __future__ import annotations

from tests.serving.test_1_recovery import (
    test_a_server_that_says_healthy_but_cannot_complete,
    test_all_four_lose_their_power_at_once,
    test_the_keepers_are_started_anew_and_nobody_notices,
    test_vllm_ray_answers_from_four_nodes,
)
from tests.serving.test_2_stops import test_an_image_without_ray_is_refused_while_the_old_one_serves
from tests.serving.test_4_profiles import (
    test_vllm_multinode_answers_from_two_nodes,
    test_vllm_replicas_answer_behind_one_address,
)

__all__ = [
    "test_a_server_that_says_healthy_but_cannot_complete",
    "test_all_four_lose_their_power_at_once",
    "test_an_image_without_ray_is_refused_while_the_old_one_serves",
    "test_the_keepers_are_started_anew_and_nobody_notices",
    "test_vllm_multinode_answers_from_two_nodes",
    "test_vllm_ray_answers_from_four_nodes",
    "test_vllm_replicas_answer_behind_one_address",
]
