# SPDX-License-Identifier: Apache-2.0
"""The official client, and the way it takes to a server that listens on a node's loopback: an SSH port forward."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import openai

QUESTION = "Which node answers?"
TOKENS = 8
EXACTLY = {"min_tokens": TOKENS, "ignore_eos": True}
"""Random weights may end an answer at once; this is vLLM's own way to have all the tokens."""


@dataclass(frozen=True)
class Answer:
    """What the server said, once as a whole and once as it came."""

    text: str
    tokens: int
    fingerprint: str
    chunks: int = 1


@dataclass(frozen=True)
class Endpoint:
    """A server as its operator reaches it; nothing is opened for it on the node."""

    ssh_config: Path
    node: str
    key: str
    port: int = 290

    @contextlib.contextmanager
    def client(self, seconds: float) -> Iterator[openai.OpenAI]:
        """A client that gives up after so long and never asks twice by itself."""
        with (
            forward(self.ssh_config, self.node, self.port) as port,
            openai.OpenAI(
                base_url=f"http://127.0.0.1:{port}/v1",
                api_key=self.key,
                timeout=seconds,
                max_retries=0,
                http_client=openai.DefaultHttpxClient(trust_env=False),  # no proxy is asked for the loopback
            ) as client,
        ):
            yield client

    def complete(self, seconds: float = 60) -> Answer:
        """A chat completion. Raises openai.OpenAIError or OSError where there is none."""
        with self.client(seconds) as client:
            completion = client.chat.completions.create(
                model=client.models.list().data[0].id,
                messages=[{"role": "user", "content": QUESTION}],
                max_tokens=TOKENS,
                temperature=0,
                extra_body=EXACTLY,
            )
        assert completion.usage is not None
        (choice,) = completion.choices
        return Answer(
            choice.message.content or "", completion.usage.completion_tokens, completion.system_fingerprint or ""
        )

    def stream(self, seconds: float = 60) -> Answer:
        """The same, streamed."""
        texts: list[str] = []
        tokens, fingerprint = 0, ""
        with self.client(seconds) as client:
            chunks = client.chat.completions.create(
                model=client.models.list().data[0].id,
                messages=[{"role": "user", "content": QUESTION}],
                max_tokens=TOKENS,
                temperature=0,
                stream=True,
                stream_options={"include_usage": True},
                extra_body=EXACTLY,
            )
            for chunk in chunks:
                texts += [choice.delta.content or "" for choice in chunk.choices]  # half a character is no text yet
                tokens = chunk.usage.completion_tokens if chunk.usage else tokens
                fingerprint = chunk.system_fingerprint or fingerprint
        return Answer("".join(texts), tokens, fingerprint, len(texts))


@contextlib.contextmanager
def forward(ssh_config: Path, node: str, port: int) -> Iterator[int]:
    """A port of this machine's loopback that is the node's; OSError where the node lets nobody in."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        local = int(probe.getsockname()[1])
    process = subprocess.Popen(
        ["ssh", "-F", str(ssh_config), "-N", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
        + ["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"]
        + ["-L", f"127.0.0.1:{local}:127.0.0.1:{port}", node],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30  # on a machine that does other things, too
        while True:
            try:
                socket.create_connection(("127.0.0.1", local), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
        yield local
    finally:
        process.terminate()
        process.wait(timeout=10)
