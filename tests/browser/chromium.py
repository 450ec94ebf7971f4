# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a window, driven over its own pipe: no port, no driver program, no library."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = "chromium"
SECONDS = 60.0
QUIET = 0.5
"""Seconds without news after which a page has done what it does."""


class Chromium:
    """One browser with one page."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders, self._answers = orders, answers
        self._numbers = itertools.count(1)
        self._left = b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, session: str | None = "", **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session == "":
            message["sessionId"] = self._session
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._next(deadline - time.monotonic())
            assert answer is not None, f"{method} was not answered within {SECONDS:.0f} s"
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                found: dict[str, Any] = answer["result"]
                return found
            self.events.append(answer)

    def _next(self, seconds: float) -> dict[str, Any] | None:
        while b"\0" not in self._left:
            if not select.select([self._answers], [], [], max(0.0, seconds))[0]:
                return None
            self._left += os.read(self._answers, 1 << 20)
        text, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def open(self, page: Path | str, *, width: int, dark: bool) -> None:
        """Show the file, or what is at the address, as a screen of this width and scheme would."""
        self._navigate("about:blank")  # what the page before would still ask for is not asked by this one
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._navigate(page.as_uri() if isinstance(page, Path) else page)

    def _navigate(self, address: str) -> None:
        self.events.clear()
        self.call("Page.navigate", url=address)
        while (answer := self._next(QUIET)) is not None or not self.happened("Page.loadEventFired"):
            if answer is not None:
                self.events.append(answer)

    def happened(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of this name since the page was opened."""
        return [one["params"] for one in self.events if one.get("method") == method]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as a picture."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """A browser with a profile of its own, gone at the end."""
    program = shutil.which(PROGRAM)
    assert program, f"{PROGRAM} is not installed"
    orders_out, orders_in = os.pipe()
    answers_out, answers_in = os.pipe()
    # The browser reads commands from its file 3 and writes to its file 4.
    pipes = f'exec 3<&{orders_out} 4>&{answers_in}; exec "$@"'
    words = [
        program,
        "--headless=new",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        "--no-first-run",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    process = subprocess.Popen(
        ["bash", "-c", pipes, "chromium", *words],
        pass_fds=(orders_out, answers_in),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(orders_out)
    os.close(answers_in)
    try:
        yield Chromium(orders_in, answers_out)
    finally:
        os.close(orders_in)
        process.terminate()
        process.wait(30)
        os.close(answers_out)
