# SPDX-License-Identifier: Apache-2.0
"""What the catalog ships, asked of apt's own solver, against packages with the names and relations as published."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.driver import driver as driving
from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver_probe import read_driver
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt import AptError, Places
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_local import LocalApt
from ansible_collections.firstlight.cluster.plugins.modules.apt_set import converge
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.openpgp import fingerprints
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack import container_runtime, nvidia_driver

from firstlight_lab.nvidia.deb import Package
from firstlight_lab.nvidia.packages import ARCHIVE, CUDA, DOCKER, load_packages
from firstlight_lab.nvidia.repository import COMPONENT, SUITE, build_repository

pytestmark = pytest.mark.slow  # packages are built and signed, and apt runs

CATALOG = Path(__file__).parents[3] / "catalog"
STACKS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((CATALOG / "stacks").glob("h*.yml"))}
INSTALLING = {name for name, stack in STACKS.items() if stack["driver"]["policy"] == "install"}
REPOSITORIES = {"cuda-repository": CUDA, "docker": DOCKER}
SITES = {ARCHIVE: "127.0.0.1", CUDA: "127.0.0.2", DOCKER: "127.0.0.3"}
"""Apt tells origins by the host of an address: three of this machine's own."""
FRESH = {
    "python3": "3.12.3-0ubuntu2",
    "lshw": "02.19.git.2021.06.19.996aaad9c7-2build3",
    "linux-headers-6.8.0-31-generic": "6.8.0-31.31",
}
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
        self.provide(FRESH)
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

    def provide(self, packages: Mapping[str, str], published: Iterable[Package] = ()) -> None:
        rows = [
            f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: amd64\n"
            "Maintainer: nobody\nDescription: there\n"
            for name, version in packages.items()
        ]
        rows += [f"{one.control()}Status: install ok installed\n" for one in published]
        (self.root / "var/lib/dpkg/status").write_text("\n".join(rows))

    def had(self, repository: str, names: Sequence[str]) -> None:
        """The host is no new one: it has these, as somebody installed them from there."""
        offered = {one.name: one for one in load_packages(repository) if one.architecture == "amd64"}
        self.provide({**FRESH, "dkms": "3.0.11-1ubuntu13"}, [offered[name] for name in names])

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

    def install(
        self, packages: Mapping[str, Any], files: Mapping[str, Any], release: str | None, leaving: Sequence[str] = ()
    ) -> dict[str, Any]:
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
            "remove": list(leaving),
            "remove_variable": "nvidia_driver_remove",
            "release": release,
            "package_archive": None,
            "drivers": True,
        }
        return converge(parameters, True, LocalApt(self, 60, 5, self.places))


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


def driver_state(
    offers: Offers,
    stack: Mapping[str, Any],
    packages: Mapping[str, Any] | None = None,
    remove: Sequence[str] = (),
) -> dict[str, Any]:
    driver = stack["driver"]
    return nvidia_driver.desired(
        {
            "nvidia_driver_policy": "install",
            "nvidia_driver_packages": driver["packages"] if packages is None else packages,
            "nvidia_driver_fabric_manager": {
                driver["fabric_manager"]["package"]: driver["fabric_manager"]["revision"],
                **driver.get("nvswitch", {}),
            },
            "nvidia_driver_version": driver["version"],
            "nvidia_driver_branch": driver["branch"],
            "nvidia_driver_flavour": driver["flavour"],
            "nvidia_driver_source": source(offers, driver["source"]),
            "nvidia_driver_remove": list(remove),
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


def test_the_library_of_the_switches_and_dcgm_come_with_a_stack(noble: Noble) -> None:
    """At the version of the driver at which the library was found published."""
    stack = STACKS["h100-vllm-0.32"]
    driver = json.loads(json.dumps(stack["driver"]).replace(stack["driver"]["version"], "580.126.20"))
    driver["fabric_manager"]["revision"] = "580.126.20-1"
    driver["nvswitch"] = {"libnvidia-nscq": "580.126.20-1"}
    state = driver_state(noble.offers, {**stack, "driver": driver})
    steps = noble.install(state["packages"], apt_files(state), driver["version"])["steps"]
    assert ("libnvidia-nscq", "580.126.20-1") in {(step["name"], step["new"]) for step in steps}
    dcgm = {f"datacenter-gpu-manager-4-{part}": "1:4.6.1-1" for part in ("core", "cuda13")}
    runtime = container_runtime.desired(
        {
            "container_runtime_packages": dcgm,
            "container_runtime_sources": [
                {**source(noble.offers, "cuda-repository"), "name": "cuda-repository", "packages": [*dcgm]}
            ],
            "container_runtime_daemon": {},
            "container_runtime_service": "docker.service",
        }
    )
    steps = noble.install(runtime["packages"], apt_files(runtime), None)["steps"]
    assert {step["name"]: step["new"] for step in steps} == dcgm


def test_without_dkms_the_refusal_names_it(noble: Noble) -> None:
    stack = STACKS["h100-vllm-0.32"]
    pins = {package: pin for package, pin in stack["driver"]["packages"].items() if package != "dkms"}
    state = driver_state(noble.offers, stack, pins)
    with pytest.raises(AptError) as caught:
        noble.install(state["packages"], apt_files(state), stack["driver"]["version"])
    assert "Depends: dkms (>= 3.1.8)" in str(caught.value)
    assert "depends on these packages of its own source, but does not name them: dkms: 1:3.2.1-1ubuntu2" in str(
        caught.value
    )


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


# -- hosts that are not new -------------------------------------------------------------------------------------------

DRIVER_570 = [
    *(
        "cuda-drivers-570",
        "nvidia-driver-570",
        "nvidia-dkms-570",
        "nvidia-kernel-source-570",
        "nvidia-kernel-common-570",
    ),
    *("nvidia-firmware-570-570.124.06", "nvidia-modprobe", "nvidia-settings", "libxnvctrl0", "nvidia-utils-570"),
    *("nvidia-compute-utils-570", "libnvidia-compute-570", "libnvidia-cfg1-570", "libnvidia-common-570"),
    *("libnvidia-gl-570", "libnvidia-extra-570", "libnvidia-decode-570", "libnvidia-encode-570", "libnvidia-fbc1-570"),
    "xserver-xorg-video-nvidia-570",
]
COMPANIONS_570 = ["nvidia-fabricmanager-570", "libnvidia-nscq-570", "nvidia-imex-570", "libnvsdm-570"]
CUDA_META = ["cuda", "cuda-12-8", "cuda-demo-suite-12-8", "cuda-runtime-12-8"]
CUDA_TOOLS = ["cuda-toolkit-12-8", "cuda-libraries-12-8"]


def move(noble: Noble, name: str = "h100-vllm-0.32", remove: Sequence[str] = ()) -> dict[str, Any]:
    """The host to a shipped driver, as role nvidia_driver does it: observed, what leaves, apt's rehearsal."""
    stack = STACKS[name]
    state = driver_state(noble.offers, stack, remove=remove)
    observed = read_driver(noble, [state["driver"]["package"]], 30, str(noble.root))
    gone = driving.leaving(observed, state["driver"])
    return noble.install(state["packages"], apt_files(state), stack["driver"]["version"], gone)


def removed(found: Mapping[str, Any]) -> list[str]:
    return sorted(step["name"] for step in found["steps"] if step["new"] is None)


def test_an_older_driver_goes_with_its_metapackage_and_its_companions(noble: Noble) -> None:
    noble.had(CUDA, [*DRIVER_570, *COMPANIONS_570])
    found = move(noble)
    replaced = {step["name"]: (step["old"], step["new"]) for step in found["steps"] if step["old"] and step["new"]}
    assert removed(found) == sorted({*DRIVER_570, *COMPANIONS_570} - {"nvidia-modprobe", "libxnvctrl0"})
    assert replaced == {
        "nvidia-modprobe": ("570.124.06-0ubuntu1", STACKS["h100-vllm-0.32"]["driver"]["packages"]["nvidia-modprobe"]),
        "dkms": ("3.0.11-1ubuntu13", "1:3.2.1-1ubuntu2"),
    }
    shown = found["diff"][0]
    assert "cuda-drivers-570 570.124.06-0ubuntu1\n" in shown["before"]
    assert "cuda-drivers" not in shown["after"]


def test_cuda_that_needs_the_driver_is_asked_for_and_its_toolkit_stays(noble: Noble) -> None:
    noble.had(CUDA, [*DRIVER_570, *CUDA_META, *CUDA_TOOLS])
    with pytest.raises(AptError) as caught:
        move(noble)
    assert "cuda-runtime-12-8 12.8.1-1 would be removed, but is not part of the set" in str(caught.value)
    assert "nvidia_driver_remove: [cuda, cuda-12-8, cuda-demo-suite-12-8, cuda-runtime-12-8]" in str(caught.value)
    assert "Nothing was changed" in str(caught.value)
    found = move(noble, remove=CUDA_META)
    assert set(CUDA_META) < set(removed(found))
    assert not set(CUDA_TOOLS) & set(removed(found))
    assert found["spared"] == sorted(CUDA_TOOLS), "nothing that came with cuda may go by apt-get autoremove"


def test_a_vendors_machine_is_asked_for_its_metapackage_alone(noble: Noble) -> None:
    """Lambda's: -server-open packages with a revision of its own, and one metapackage on top."""
    names = [one.name for one in load_packages("lambda") if one.architecture == "amd64"]
    noble.had("lambda", names)
    pin = "Package: *\nPin: origin archive.lambdalabs.com\nPin-Priority: 1001\n"
    (noble.root / "etc/apt/preferences.d/lambda").write_text(pin)
    with pytest.raises(AptError, match=r"nvidia_driver_remove: \[lambda-stack-cuda\]"):
        move(noble)
    found = move(noble, remove=["lambda-stack-cuda"])
    assert removed(found) == sorted(names)
    assert [os.path.basename(one["file"]) for one in found["foreign_pins"]] == ["lambda"]


@pytest.mark.parametrize(("pinned", "goes"), [("570", True), ("580", False)])
def test_preferences_for_another_branch_go_with_its_driver(noble: Noble, pinned: str, goes: bool) -> None:
    noble.had(CUDA, [*DRIVER_570, f"nvidia-driver-pinning-{pinned}"])
    assert (f"nvidia-driver-pinning-{pinned}" in removed(move(noble))) is goes
