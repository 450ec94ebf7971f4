# SPDX-License-Identifier: Apache-2.0
"""A bring-up by the newest Python and ansible-core of the supported range; every other one is by those of the lock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import CHECKOUT, Checkout

SITE = "scripts/newest.sh ansible-playbook site.yml -i inventory/lab-h100x4"


@pytest.fixture(scope="module")
def checkout() -> Iterator[Checkout]:
    made = Checkout(CHECKOUT, "newest")
    try:
        up = made.run(".venv/bin/firstlight lab up --nodes 1 --profile h100-sxm-4-nvswitch")
        assert up.status == 0, up.output
        yield made
    finally:
        made.run(".venv/bin/firstlight lab down")


@pytest.mark.extended  # a bring-up of its own, after a Debian 13 file system was made for its controller
def test_it_is_brought_up_and_a_second_run_changes_nothing(checkout: Checkout) -> None:
    version = checkout.run("scripts/newest.sh ansible --version").output
    assert "[core 2.21." in version, version
    assert "python version = 3.13." in version, version
    first = checkout.run(SITE)
    assert first.status == 0, first.output[-6000:]
    assert "-tp4" in first.output
    again = checkout.run(SITE)
    assert again.status == 0, again.output[-6000:]
    assert again.recap["gpu0"]["changed"] == 0
