# SPDX-License-Identifier: Apache-2.0
"""The proof that a container sees the host's GPUs: the command to run, and the evaluation of its output."""

from __future__ import annotations

from ..parsers.nvidia_smi import parse_gpu_list
from ..text import said_lines

_REMEDIES = (
    ("could not select device driver", "Docker has not found the container toolkit: install it and restart Docker"),
    ("version mismatch", "the loaded driver is not the installed one: reboot the host"),
    ("driver not loaded", "no driver is loaded: reboot the host, then see `dmesg`"),
    ("unresolvable CDI devices", "the CDI specification is missing or in conflict with another: run the role again"),
    ("no such image", "the image is not on the host: load it with the role inference_image"),
    ("unable to find image", "the image is not on the host: load it with the role inference_image"),
    ("executable file not found", "the toolkit put no nvidia-smi into the container: see `nvidia-container-cli info`"),
    ("cannot connect to the docker daemon", "Docker does not run: see `systemctl status docker`"),
)


def arguments(image: str) -> list[str]:
    """The command; the entry point is replaced, so that the image's own program does not run."""
    return [
        *("docker", "run", "--rm", "--pull=never", "--network=none", "--gpus", "all"),
        *("--entrypoint", "nvidia-smi", image, "-L"),
    ]


def evaluate(rc: int, stdout: str, stderr: str, problem: str, image: str, count: int) -> list[str]:
    """Return the UUIDs that the container listed. Raises ValueError if their number is not as expected."""
    expected = f"expected {_counted(count)}"
    reading = parse_gpu_list(stdout)
    if problem or (rc != 0 and not reading.gpus):
        reason = problem or " ".join(said_lines(stderr) or said_lines(stdout))[:400] or f"docker returned {rc}"
        raise ValueError(f"A container of {image} sees no GPU ({reason}), {expected}: {_remedy(reason)}")
    if len(reading.gpus) != count or reading.complaints:
        told = f" ({'; '.join(reading.complaints)})" if reading.complaints else ""
        raise ValueError(
            f"A container of {image} sees {_counted(len(reading.gpus))}{told}, {expected}: compare with "
            "`nvidia-smi -L` on the host; if that lists all of them, run the role again and restart Docker"
        )
    return [gpu.uuid for gpu in reading.gpus]


def _counted(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _remedy(reason: str) -> str:
    lowered = reason.lower()
    found = [remedy for words, remedy in _REMEDIES if words.lower() in lowered]
    return found[0] if found else "see what `docker run --rm --gpus all IMAGE nvidia-smi -L` says on the host"
