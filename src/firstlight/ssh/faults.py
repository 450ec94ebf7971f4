# SPDX-License-Identifier: Apache-2.0
"""Faults of a single node, each with its own message. Pure functions: other nodes are not affected."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Fault:
    """What was found, what was expected and how to fix it."""

    kind: str
    found: str
    expected: str
    remedy: str

    @property
    def text(self) -> str:
        return f"{self.found}; expected {self.expected}. {self.remedy}"

    def as_document(self) -> dict[str, str]:
        return asdict(self)


class NodeError(Exception):
    """Ends the work on one node."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class LostError(Exception):
    """The connection broke because the node rebooted or the network failed."""


def unreachable(address: str, port: int, why: str) -> Fault:
    return Fault(
        "unreachable",
        f"no SSH server answers at {address} port {port} ({why})",
        "a host that is on and runs sshd",
        "Check power, cable and address.",
    )


def wrong_password(user: str) -> Fault:
    return Fault(
        "wrong-password",
        f"the password of {user} was refused",
        "the password that this node was set up with",
        "It was tried once. Run the command again for this node alone, with its own password.",
    )


def no_login(user: str, allowed: str) -> Fault:
    return Fault(
        "no-login",
        f"{user} cannot log in: the operator's key is not accepted and the host accepts only {allowed or 'nothing'}",
        "password login, or the operator's key in authorized_keys",
        "Allow one of them on the host's console.",
    )


def no_password(user: str) -> Fault:
    return Fault(
        "no-password",
        f"{user} cannot log in with the operator's key and no password was given",
        "a password for the first contact",
        "Use --ask-password or --password-fd.",
    )


def key_unknown(fingerprint: str) -> Fault:
    return Fault(
        "host-key-unknown",
        f"the host presents a key that was never confirmed: {fingerprint}",
        "a pinned key, or an explicit choice",
        "Compare it on the host's console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then use --accept with "
        "this node or --fingerprints with a file.",
    )


def key_changed(pinned: str, shown: str) -> Fault:
    return Fault(
        "host-key-changed",
        f"THE HOST KEY HAS CHANGED: it is {shown}",
        f"{pinned}, the key that was pinned",
        "Nothing was sent to this host: it may be another machine that listens in. If it was replaced, "
        "use --replaces with this node and its new serial number in the list; if it was reinstalled, remove "
        "its line "
        "from the known_hosts file and confirm the new key.",
    )


def wrong_serial(found: str | None, expected: str | None) -> Fault:
    return Fault(
        "not-replaced",
        "the machine that presents the new key has "
        f"{f'the serial number {found}' if found else 'no readable serial number'}",
        f"{expected}, the machine that replaces the old one",
        "The old key stays pinned. Check the sticker, and correct the list; reading the number needs sudo there.",
    )


def key_unexpected(listed: str, shown: str) -> Fault:
    return Fault(
        "host-key-unexpected",
        f"THE HOST KEY IS NOT THE LISTED ONE: it is {shown}",
        f"{listed}, from the file of fingerprints",
        "Nothing was sent to this host. Compare the key on its console and correct the file, or find out which machine "
        "has its address.",
    )


def lost(during: str, seconds: float) -> Fault:
    return Fault(
        "lost",
        f"the node was lost during the step '{during}' and "
        + (f"was not back after {seconds:.0f} s" if seconds else "was not waited for"),
        "a node that stays on, or comes back from a reboot",
        "When it is back, run the same command again: what is done stays done, the rest is finished.",
    )


def full_disk(step: str) -> Fault:
    return Fault(
        "full-disk",
        f"the disk is full (step '{step}')",
        "a few free megabytes",
        "Free some space (df -h, df -i) and run the command again. No file was left half written.",
    )


def no_sudo(user: str, said: str) -> Fault:
    return Fault(
        "no-sudo",
        f"{user} may not become root: {said}",
        "an account that may use sudo",
        f"On the host's console, as root: usermod -aG sudo {user} (or install sudo), or use another --user.",
    )


def sudo_password(user: str) -> Fault:
    return Fault(
        "sudo-password",
        f"sudo needs a password of {user} that was not given or is wrong",
        "the password of the account",
        "Use --ask-password or --password-fd with that password.",
    )


def duplicate_address(address: str, owners: str) -> Fault:
    return Fault(
        "duplicate-address",
        f"the address {address} is used more than once: {owners}",
        "one machine per address",
        "Give one of them another address. Until then a login may reach either machine.",
    )


def duplicate_serial(serial: str, others: str) -> Fault:
    return Fault(
        "duplicate-serial",
        f"the serial number {serial} is also that of {others}",
        "a serial number of its own for each machine",
        "Either one machine was reached by two addresses: remove one. Or a board was exchanged and its number copied.",
    )


def wrong_hardware(found: str, expected: str) -> Fault:
    return Fault(
        "wrong-hardware",
        f"another machine is in this place: {found}",
        expected,
        "Nothing was changed on it. Correct the cabling, or the list of nodes.",
    )


def step_failed(step: str, said: str) -> Fault:
    return Fault(
        "step-failed",
        f"the step '{step}' failed: {said or 'it printed nothing'}",
        "a Debian or Ubuntu host in working order",
        "Correct that on the host and run the command again: what is done stays done.",
    )
