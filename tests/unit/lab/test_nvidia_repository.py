# SPDX-License-Identifier: Apache-2.0
"""Packages that dpkg reads and a repository that apt trusts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from firstlight_lab.nvidia import RepositoryError, SigningError, build_repository
from firstlight_lab.nvidia import repository as module
from firstlight_lab.nvidia.deb import Entry, Package, write_deb
from firstlight_lab.nvidia.packages import load_packages

pytestmark = pytest.mark.slow  # packages are built and signed

NEW, OLD = "580.126.09-0ubuntu0.24.04.2", "580.95.05-0ubuntu0.24.04.2"


def run(*command: str | Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def quiet(_: str) -> None:
    """Progress nobody reads."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    build_repository(folder, quiet)
    return folder


def apt(cache: Path, root: Path) -> list[str]:
    """apt-get with a private configuration: nothing of this machine is read or written."""
    for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/lib/dpkg",
                 "var/cache/apt/archives/partial"):  # fmt: skip
        (root / name).mkdir(parents=True, exist_ok=True)
    status = root / "var/lib/dpkg/status"
    status.write_text(
        "Package: python3\nStatus: install ok installed\nVersion: 3.11.2-1\nArchitecture: arm64\n"
        "Maintainer: nobody\nDescription: there already\n"
    )
    key = cache / "apt/key.asc"
    (root / "etc/apt/sources.list").write_text(f"deb [signed-by={key}] file:{cache}/apt firstlight main\n")
    options = [
        f"Dir={root}",
        f"Dir::State::status={status}",
        "APT::Architecture=arm64",
        "APT::Architectures::=arm64",
        "APT::Sandbox::User=",
        "Debug::NoLocking=1",
    ]
    return ["apt-get", *(word for option in options for word in ("-o", option))]


def test_dpkg_reads_the_packages(cache: Path) -> None:
    pool = cache / "apt/pool/stub"
    deb = pool / f"nvidia-driver-580-open_{NEW}_arm64.deb"
    depends = run("dpkg-deb", "--field", deb, "Depends")
    assert all(part.endswith(f"(= {NEW})") for part in depends.strip().split(", "))
    assert f"nvidia-dkms-580-open (= {NEW})" in depends
    listing = run("dpkg-deb", "--contents", pool / f"nvidia-dkms-580-open_{NEW}_amd64.deb")
    assert "multi-user.target.wants/firstlight-lab-nvidia-load.service -> ../firstlight-lab" in listing
    assert "Package: nvidia-utils-580" in run("dpkg-deb", "--info", pool / f"nvidia-utils-580_{NEW}_amd64.deb")


def test_the_module_is_built_when_its_package_is_configured(cache: Path, tmp_path: Path) -> None:
    run("dpkg-deb", "--control", cache / f"apt/pool/stub/nvidia-dkms-580-open_{NEW}_amd64.deb", tmp_path)
    assert (tmp_path / "postinst").stat().st_mode & 0o777 == 0o755
    assert "nvidia-load --build" in (tmp_path / "postinst").read_text()


def test_dpkg_unpacks_working_programs(cache: Path, tmp_path: Path) -> None:
    deb = cache / f"apt/pool/stub/nvidia-utils-580_{NEW}_arm64.deb"
    run("dpkg-deb", "--extract", deb, tmp_path)
    assert (tmp_path / "usr/bin/nvidia-smi").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "usr/share/firstlight-lab/profiles/readings/hopper.json").is_file()
    run("dpkg-deb", "--extract", cache / "apt/pool/stub/cuda-nvcc-13-0_13.0.88-1_arm64.deb", tmp_path)
    assert "release 13.0, V13.0.88" in run(tmp_path / "usr/local/cuda-13.0/bin/nvcc", "--version")


def test_the_signatures_hold(cache: Path, tmp_path: Path) -> None:
    release = cache / "apt/dists/firstlight"
    keyring = tmp_path / "key.gpg"
    run("gpg", "--homedir", tmp_path, "--batch", "--dearmor", "--output", keyring, cache / "apt/key.asc")
    run("gpgv", "--keyring", keyring, release / "InRelease")
    run("gpgv", "--keyring", keyring, release / "Release.gpg", release / "Release")
    broken = tmp_path / "Release"
    broken.write_bytes((release / "Release").read_bytes().replace(b"firstlight", b"otherlight"))
    with pytest.raises(AssertionError, match="BAD signature"):
        run("gpgv", "--keyring", keyring, release / "Release.gpg", broken)


def test_the_key_is_there_in_both_forms(cache: Path, tmp_path: Path) -> None:
    run("gpgv", "--keyring", cache / "apt/key.gpg", cache / "apt/dists/firstlight/InRelease")
    with pytest.raises(AssertionError, match="BAD signature"):
        run("gpgv", "--keyring", cache / "apt/key.gpg", cache / "apt/dists/tampered/InRelease")
    for suite in ("tampered", "expired"):
        get = apt(cache, tmp_path)
        sources = tmp_path / "etc/apt/sources.list"
        sources.write_text(sources.read_text().replace(" firstlight ", f" {suite} "))
        with pytest.raises(AssertionError, match="BADSIG" if suite == "tampered" else "is expired"):
            run(*get, "-o", "Acquire::Check-Valid-Until=true", "update", "--error-on=any")


def test_from_branch_590_on_the_names_have_no_branch_and_both_exclude_each_other(cache: Path, tmp_path: Path) -> None:
    get = apt(cache, tmp_path)
    run(*get, "update")
    plan = run(*get, "--simulate", "install", "nvidia-open", "nvidia-fabricmanager")
    chosen = sorted(line.split()[1] for line in plan.splitlines() if line.startswith("Inst "))
    assert len(chosen) == 16
    assert not any("580" in name or "590" in name for name in chosen)
    for old, new in (("libnvidia-compute-580", "libnvidia-compute"), ("nvidia-utils-580", "libnvidia-compute")):
        with pytest.raises(AssertionError, match="Conflicts"):
            run(*get, "--simulate", "install", old, new)


def test_the_private_key_is_not_served(cache: Path) -> None:
    assert (cache / "apt-key").stat().st_mode & 0o077 == 0
    assert not list((cache / "apt").rglob("*private*"))
    assert b"PRIVATE" not in (cache / "apt/key.asc").read_bytes()


def test_apt_trusts_it_and_resolves_a_whole_stack(cache: Path, tmp_path: Path) -> None:
    get = apt(cache, tmp_path)
    run(*get, "update")
    plan = run(*get, "--simulate", "install", "nvidia-driver-580-open", "nvidia-fabricmanager-580",
               "nvidia-container-toolkit", "cuda-toolkit-13-0")  # fmt: skip
    chosen = {line.split()[1]: line.split()[2].lstrip("(") for line in plan.splitlines() if line.startswith("Inst ")}
    assert chosen["libnvidia-compute-580"] == NEW
    assert chosen["nvidia-firmware-580-580.126.09"] == NEW
    assert chosen["nvidia-container-toolkit-base"] == "1.18.2-1"
    assert chosen["cuda-nvcc-13-0"] == "13.0.97-1"
    assert len(chosen) == 24


def test_a_metapackage_alone_does_not_pin_an_older_driver(cache: Path, tmp_path: Path) -> None:
    get = apt(cache, tmp_path)
    run(*get, "update")
    with pytest.raises(AssertionError, match=r"libnvidia-compute-580 \(= 580.95.05"):
        run(*get, "--simulate", "install", f"nvidia-driver-580-open={OLD}")
    names = {package.name for package in load_packages() if package.version == OLD and package.architecture == "arm64"}
    whole = sorted(f"{name}={OLD}" for name in names if not name.endswith("-server") and "580-server" not in name)
    plan = run(*get, "--simulate", "install", *whole)
    assert "nvidia-driver-580-open (580.95.05" in plan


def test_flavours_exclude_each_other(cache: Path, tmp_path: Path) -> None:
    get = apt(cache, tmp_path)
    run(*get, "update")
    with pytest.raises(AssertionError, match="Conflicts"):
        run(*get, "--simulate", "install", "nvidia-utils-580", "nvidia-utils-560-server")


def test_apt_refuses_what_the_key_did_not_sign(cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    build_repository(other, quiet)
    get = apt(cache, tmp_path / "root")
    sources = tmp_path / "root/etc/apt/sources.list"
    sources.write_text(f"deb [signed-by={other}/apt/key.asc] file:{cache}/apt firstlight main\n")
    with pytest.raises(AssertionError, match="NO_PUBKEY"):
        run(*get, "update", "-o", "APT::Update::Error-Mode=any")


def test_a_second_build_does_nothing(cache: Path) -> None:
    said: list[str] = []
    before = (cache / "apt/dists/firstlight/InRelease").stat().st_mtime_ns
    assert build_repository(cache, said.append) == cache / "apt"
    assert said == []
    assert (cache / "apt/dists/firstlight/InRelease").stat().st_mtime_ns == before


def test_real_packages_are_added_and_removed(tmp_path: Path) -> None:
    entry = {"/usr/bin/tini": Entry(b"#!/bin/sh\n", 0o755)}
    package = Package("tini", "0.19.0-1", "arm64", "tiny init", "somebody", depends=["libc6 (>= 2.34)"], entries=entry)
    deb = tmp_path / package.filename
    deb.write_bytes(write_deb(package))
    shared = Package("docker-doc", "1:20.10.24", "all", "for every machine", "somebody")
    every = tmp_path / "docker-doc_1%3a20.10.24_all.deb"
    every.write_bytes(write_deb(shared))
    where = build_repository(tmp_path / "cache", quiet, extra_debs=[deb, every])
    packages = {
        name: (where / f"dists/firstlight/main/binary-{name}/Packages").read_text() for name in ("amd64", "arm64")
    }
    assert "\nFilename: pool/real/tini_0.19.0-1_arm64.deb\n" in packages["arm64"]
    assert "Package: tini\n" not in packages["amd64"]
    assert all("Package: docker-doc\n" in text for text in packages.values())
    assert (where / "pool/real/tini_0.19.0-1_arm64.deb").read_bytes() == deb.read_bytes()
    get = apt(tmp_path / "cache", tmp_path / "root")
    run(*get, "update")
    assert "Inst docker-doc (1:20.10.24" in run(*get, "--simulate", "install", "docker-doc")
    key = (where / "key.asc").read_bytes()
    build_repository(tmp_path / "cache", quiet)
    assert not list((where / "pool/real").iterdir())
    assert (where / "key.asc").read_bytes() == key


def test_a_wrong_extra_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=r"absent\.deb is not a file"):
        build_repository(tmp_path, quiet, extra_debs=[tmp_path / "absent.deb"])
    rubbish = tmp_path / "rubbish.deb"
    rubbish.write_text("not a package")
    with pytest.raises(RepositoryError, match=r"rubbish.deb is not a usable .deb"):
        build_repository(tmp_path, quiet, extra_debs=[rubbish])


def test_a_missing_gpg_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstlight_lab.nvidia.signing.shutil.which", lambda _: None)
    with pytest.raises(SigningError, match="Install the Debian or Ubuntu package gnupg"):
        build_repository(tmp_path, quiet)
    assert not (tmp_path / "apt" / module.STATE).exists()


def test_packages_are_the_same_every_time() -> None:
    package = load_packages()[0]
    assert write_deb(package) == write_deb(load_packages()[0])


def test_names_and_versions_are_unique_and_dependencies_exist() -> None:
    packages = load_packages()
    identities = [(package.name, package.version, package.architecture) for package in packages]
    assert len(set(identities)) == len(identities)
    names = {package.name for package in packages} | {"python3"}
    for package in packages:
        for depend in package.depends:
            assert depend.split()[0] in names, f"{package.name} needs {depend}"
        for path, entry in package.entries.items():
            if path.endswith(".json"):
                json.loads(entry.data)
