# SPDX-License-Identifier: Apache-2.0
"""Faults that only a person can fix. Each ends in a stop that says why, and is fixed by the command of the manual."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.e2e.serving.lab import HEAD, RAY, SUPERVISOR, Run, Serving
from tests.e2e.serving.processes import wait_for

MODELS = "/var/lib/firstlight/models"
TOKEN = "/etc/firstlight/supervisor-spark1.token"
SHARD = f"$(find {MODELS} -name '*.safetensors' | sort | head -1)"


def fix(serving: Serving) -> Run:
    """What the manual says to do about a node that differs from its plan."""
    return serving.playbook("site.yml")


def restart(serving: Serving) -> None:
    """Start the group anew, as anything could that ends one of its ranks."""
    serving.inside(HEAD, f"systemctl reload {SUPERVISOR}")


def test_a_corrupted_weight_shard(serving: Serving) -> None:
    began = serving.before_a_fault()
    serving.inside("spark2", f"printf damaged | dd of={SHARD} bs=1 seek=4096 conv=notrunc status=none")
    restart(serving)
    said = serving.stopped("spark2", ".safetensors")
    fix(serving)
    serving.record("corrupted weight shard", began, serving.served(began), said, ended="stopped")
    serving.assert_serves()


def test_an_image_that_is_missing_on_one_node(serving: Serving) -> None:
    began = serving.before_a_fault()
    serving.inside("spark3", f"docker rm -f {RAY}; docker image ls -q | sort -u | xargs docker rmi -f")
    said = serving.stopped("spark3", "image")
    fix(serving)
    serving.record("image missing on one node", began, serving.served(began), said, ended="stopped")
    serving.assert_serves()


def test_a_wrong_token_on_one_node(serving: Serving) -> None:
    began = serving.before_a_fault()
    serving.inside(
        "spark1", f"head -c 32 /dev/urandom | sha256sum | cut -c1-64 > {TOKEN}; systemctl restart {SUPERVISOR}"
    )
    said = serving.stopped("spark1", "token")
    fix(serving)
    serving.record("wrong token on one node", began, serving.served(began), said, ended="stopped")
    serving.assert_serves()


def test_an_image_without_ray_is_refused_while_the_old_one_serves(serving: Serving, tmp_path: Path) -> None:
    began = serving.before_a_fault()
    epoch = serving.group()["epoch"]
    catalog = serving.lab.directory / "catalog"
    stack = yaml.safe_load((catalog / f"stacks/{serving.stack}.yml").read_text())
    without = yaml.safe_load((catalog / "extras.yml").read_text())["image_without_ray"]
    stack["name"] = "no-ray"
    stack["image"] |= dict(zip(("repository", "digest"), without.split("@"), strict=True))
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks/no-ray.yml").write_text(yaml.safe_dump(stack))
    chosen = {"firstlight_stack": "no-ray", "firstlight_catalog": [str(tmp_path), str(catalog)]}
    run = serving.playbook("site.yml", "-e", json.dumps(chosen), fails=True)
    words = next(line.strip() for line in run.output.splitlines() if "ray" in line and "expected" in line)
    serving.record("image without Ray", began, serving.served(began), words, ended="stopped")
    serving.assert_serves()
    assert serving.group()["epoch"] == epoch, "what served was not touched"
    fix(serving)


def test_a_copy_of_the_weights_that_is_interrupted_half_way(serving: Serving, tmp_path: Path) -> None:
    """The node loses its power in the middle; what it has is not mistaken for a model, and not fetched again."""
    began = serving.before_a_fault()
    serving.inside("spark2", f"rm -rf {MODELS}/*")
    serving.link("spark2", rate="2mbit")
    try:
        with serving.started(*serving.words("site.yml"), log=tmp_path / "log"):
            part = f"find {MODELS} -name '*.partial' -size +64k | grep -q ."
            wait_for(lambda: serving.inside("spark2", f"{part} && echo yes || true") != "", 240, "half a copy")
            serving.power("spark2", "off")
    finally:
        serving.link("spark2", rate="none")
    serving.power("spark2", "on")
    half = int(serving.inside("spark2", f"find {MODELS} -name '*.partial' -printf '%s\\n'").split()[-1])
    assert half > 0
    said = serving.stopped("spark2", "weights")
    fix(serving)
    serving.record("weights copy interrupted half-way", began, serving.served(began), said, ended="stopped")
    serving.assert_serves()


OWN = "/var/lib/firstlight"
FULL = f"""
mkdir -p /run/aside && mount --bind {OWN} /run/aside
mount -t tmpfs -o size=8m,mode=755 tmpfs {OWN}
tar -C /run/aside --exclude=./models -cf - . | tar -C {OWN} -xf -
mkdir -p {MODELS} && mount --bind /run/aside/models {MODELS}
dd if=/dev/zero of={OWN}/filled bs=1k 2>/dev/null || true
"""
EMPTIED = f"umount --lazy {MODELS} {OWN} /run/aside"


def test_a_full_disk_on_the_head(serving: Serving) -> None:
    """The supervisor cannot write down what it must remember: it says so and goes on, or says so and stops."""
    began = serving.before_a_fault()
    serving.inside(HEAD, FULL)
    try:
        serving.inside("spark1", f"docker kill {RAY}")
        seconds = serving.served(began)
        said = serving.inside(HEAD, f"journalctl -q -o cat -u {SUPERVISOR} --since -10min | grep -i -m1 'space'")
    finally:
        serving.inside(HEAD, EMPTIED)
    serving.record("full disk", began, seconds, said.strip())
    serving.assert_serves()
