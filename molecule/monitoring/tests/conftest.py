# SPDX-License-Identifier: Apache-2.0
"""How a node of the lab asks another one for a page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from testinfra.host import Host

ASK = """
import sys
from urllib import error, request
try:
    answer = request.urlopen(sys.argv[1], timeout=10)
    print(answer.status)
    print(answer.read().decode())
except error.HTTPError as other:
    print(other.code)
except OSError:
    print("refused")
"""

Ask = Callable[[str, str], tuple[str, str]]


@pytest.fixture
def ask(request: pytest.FixtureRequest) -> Ask:
    """From a node, for a URL: the status and the body of the answer."""

    def asked(node: str, url: str) -> tuple[str, str]:
        asking = Host.get_host(f"ssh://{node}", ssh_config=request.config.option.ssh_config)
        status, _, body = asking.check_output("python3 -c %s %s", ASK, url).partition("\n")
        return status, body

    return asked
