# SPDX-License-Identifier: Apache-2.0
"""What the catalog ships, asked of apt's own solver, against packages with the names and relations as published."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.apt import Apt, AptError, Places
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import container_runtime, nvidia_driver
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.openpgp import fingerprints
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules.apt_set import converge

from firstlight.lab.nvidia.packages import ARCHIVE, CUDA, DOCKER
from firstlight.lab.nvidia.repository import COMPONENT, SUITE, build_repository

pytestmark = pytest.mark.slow  # packages are built and signed, and apt runs

CATALOG = Path(__file__).parents[3] / "catalog"
STACKS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((CATALOG / "stacks").glob("h*.yml"))}
INSTALLING = {name for name, stack in STACKS.items() if stack["driver"]["policy"] == "install"}
REPOSITORIES = {"cuda-repository": CUDA, "docker": DOCKER}
SITES = {ARCHIVE: "127.0.0.1", CUDA: "127.0.0.2", DOCKER: "127.0.0.3"}
"""Apt tells origins by the host of an address: three of this machine's own."""
PIN_600 = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
"""What NVIDIA's cuda-keyring brings on Ubuntu."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves a repository."""

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@dataclass(frozen=True)
class Offers:
    """The repositories, served."""

    addresses: Mapping[str, str]
    keys: Mapping[str, str]


class Noble(Host):
    """This machine's apt, with the packages and sources of a fresh Ubuntu 24.04 and nothing of its own."""

    def __init__(self, root: Path, offers: Offers) -> None:
        self.root, self.offers = root, offers
        for name in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/lib/dpkg",
                     "var/cache/apt/archives/partial", "scratch"):  # fmt: skip
            (root / name).mkdir(parents=True)
        self.installed({"python3": "3.12.3-0ubuntu2", "linux-headers-6.8.0-31-generic": "6.8.0-31.31"})
        self.source("ubuntu.list", ARCHIVE)
        options = {
            "Dir": root,
            "Dir::State::status": root / "var/lib/dpkg/status",
            "APT::Architecture": "amd64",
            "APT::Architectures::": "amd64",
            "APT::Sandbox::User": "",
            "Debug::NoLocking": "1",
        }
        (root / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in options.items()))
        self.places = Places(*(str(root / name) for name in ("etc/apt", "var/lib/apt/lists", "scratch", "archives")))

    def installed(self, packages: Mapping[str, str]) -> None:
        rows = [
            f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: amd64\n"
            "Maintainer: nobody\nDescription: there\n"
            for name, version in packages.items()
        ]
        (self.root / "var/lib/dpkg/status").write_text("\n".join(rows))

    def source(self, name: str, repository: str) -> None:
        keyring = self.root / f"{repository}.asc"
        keyring.write_text(self.offers.keys[repository])
        line = f"deb [signed-by={keyring}] {self.offers.addresses[repository]} {SUITE} {COMPONENT}\n"
        (self.root / "etc/apt/sources.list.d" / name).write_text(line)

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        settings = {"APT_CONFIG": str(self.root / "apt.conf"), "DPKG_ADMINDIR": str(self.root / "var/lib/dpkg")}
        return super().run(argv, timeout, {**(env or {}), **settings}, stdin)

    def install(self, packages: Mapping[str, Any], files: Mapping[str, Any], release: str | None) -> dict[str, Any]:
        """The module in check mode: everything but the change itself."""
        moved = {path.replace("/etc/apt", str(self.root / "etc/apt")): file for path, file in files.items()}
        parameters = {
            "packages": packages,
            "install": True,
            "holds": [],
            "files": {
                path: {**file, "content": file["content"].replace("/etc/apt", str(self.root / "etc/apt"))}
                for path, file in moved.items()
            },
            "leaving": [],
            "release": release,
            "keep": None,
            "drivers": True,
        }
        return converge(parameters, True, Apt(self, 60, 5, self.places))


@pytest.fixture(scope="module")
def offers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offers]:
    folder = tmp_path_factory.mktemp("cache")
    addresses, keys = {}, {}
    with contextlib.ExitStack() as stack:
        for repository, site in SITES.items():
            place = build_repository(folder, lambda _: None, repository)
            server = stack.enter_context(ThreadingHTTPServer((site, 0), partial(Quiet, directory=str(place))))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            addresses[repository] = f"http://{site}:{server.server_port}"
            keys[repository] = (place / "key.asc").read_text()
        yield Offers(addresses, keys)


@pytest.fixture
def noble(tmp_path: Path, offers: Offers) -> Noble:
    return Noble(tmp_path, offers)


def source(offers: Offers, name: str) -> dict[str, Any]:
    """A source of the catalog, with the stand-in's address and key."""
    key = offers.keys[REPOSITORIES[name]]
    return {
        "uris": [offers.addresses[REPOSITORIES[name]]],
        "suites": [SUITE],
        "components": [COMPONENT],
        "key": key,
        "fingerprint": fingerprints(key),
    }


def driver_state(offers: Offers, stack: Mapping[str, Any], packages: Mapping[str, Any] | None = None) -> dict[str, Any]:
    driver = stack["driver"]
    return nvidia_driver.desired(
        {
            "nvidia_driver_policy": "install",
            "nvidia_driver_packages": driver["packages"] if packages is None else packages,
            "nvidia_driver_fabric_manager": {driver["fabric_manager"]["package"]: driver["fabric_manager"]["revision"]},
            "nvidia_driver_version": driver["version"],
            "nvidia_driver_branch": driver["branch"],
            "nvidia_driver_flavour": driver["flavour"],
            "nvidia_driver_source": source(offers, driver["source"]),
            "nvidia_driver_headers": True,
            "nvidia_driver_mig_ok": False,
            "nvidia_driver_host": {"nvswitch": True, "kernel": "6.8.0-31-generic"},
        }
    )


def apt_files(state: Mapping[str, Any]) -> dict[str, Any]:
    return {path: file for path, file in state["files"].items() if path.startswith("/etc/apt/")}


@pytest.mark.parametrize("name", sorted(INSTALLING))
def test_every_shipped_driver_can_be_installed_on_a_fresh_ubuntu(noble: Noble, name: str) -> None:
    stack = STACKS[name]
    state = driver_state(noble.offers, stack)
    steps = noble.install(state["packages"], apt_files(state), stack["driver"]["version"])["steps"]
    coming = {step["name"]: step["new"] for step in steps}
    pins = {package: pin for package, pin in state["packages"].items() if pin}
    assert coming == pins, "the whole set, and nothing beside it"
    assert coming["dkms"].startswith("1:3.2")


def test_without_dkms_the_refusal_names_it(noble: Noble) -> None:
    stack = STACKS["h100-vllm-0.32"]
    pins = {package: pin for package, pin in stack["driver"]["packages"].items() if package != "dkms"}
    state = driver_state(noble.offers, stack, pins)
    with pytest.raises(AptError) as caught:
        noble.install(state["packages"], apt_files(state), stack["driver"]["version"])
    assert "Depends: dkms (>= 3.1.8)" in str(caught.value)
    assert "needs these of its own source and does not name them: dkms: 1:3.2.1-1ubuntu2" in str(caught.value)


def test_the_vendors_own_pin_file_does_not_open_its_repository(noble: Noble) -> None:
    """It gives everything of that repository priority 600: ours is read first, and hides what the set does not name."""
    (noble.root / "etc/apt/preferences.d/cuda-repository-pin-600").write_text(PIN_600)
    stack = STACKS["h100-vllm-0.32"]
    state = driver_state(noble.offers, stack)
    found = noble.install(state["packages"], apt_files(state), stack["driver"]["version"])
    assert [(os.path.basename(one["file"]), one["priority"]) for one in found["foreign_pins"]] == [
        ("cuda-repository-pin-600", "600")
    ]
    pins = {package: pin for package, pin in stack["driver"]["packages"].items() if package != "dkms"}
    state = driver_state(noble.offers, stack, pins)
    with pytest.raises(AptError, match="cuda-repository-pin-600"):
        noble.install(state["packages"], apt_files(state), stack["driver"]["version"])


def test_a_source_that_the_vendors_keyring_left_is_switched_off(noble: Noble) -> None:
    noble.source("cuda-ubuntu2404-x86_64.list", CUDA)
    stack = STACKS["h100-vllm-0.32"]
    state = driver_state(noble.offers, stack)
    found = noble.install(state["packages"], apt_files(state), stack["driver"]["version"])
    assert [os.path.basename(path) for path in found["superseded"]] == ["cuda-ubuntu2404-x86_64.list"]
    assert found["steps"]


@pytest.mark.parametrize("name", sorted(name for name in STACKS if STACKS[name]["packages"]))
def test_docker_and_the_toolkit_come_from_two_sources(noble: Noble, name: str) -> None:
    stack = STACKS[name]
    listed: dict[str, list[str]] = {}
    for package, where in stack["package_sources"].items():
        listed.setdefault(where, []).append(package)
    state = container_runtime.desired(
        {
            "container_runtime_packages": stack["packages"],
            "container_runtime_sources": [
                {**source(noble.offers, where), "name": where, "packages": names} for where, names in listed.items()
            ],
            "container_runtime_daemon": {},
            "container_runtime_service": "docker.service",
        }
    )
    steps = noble.install(state["packages"], apt_files(state), None)["steps"]
    assert {step["name"]: step["new"] for step in steps} == state["packages"]


def test_a_package_of_another_source_than_its_own_is_refused(noble: Noble) -> None:
    """Docker's packages are not NVIDIA's: a stack that says so is wrong, and apt would take them from anywhere."""
    stack = STACKS["h100-vllm-0.32"]
    noble.source("docker.list", DOCKER)
    state = container_runtime.desired(
        {
            "container_runtime_packages": stack["packages"],
            "container_runtime_sources": [
                {**source(noble.offers, "cuda-repository"), "name": "cuda-repository", "packages": [*stack["packages"]]}
            ],
            "container_runtime_daemon": {},
            "container_runtime_service": "docker.service",
        }
    )
    with pytest.raises(AptError, match=r"Packages of the set would come from another source: containerd\.io"):
        noble.install(state["packages"], apt_files(state), None)
