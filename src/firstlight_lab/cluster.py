# SPDX-License-Identifier: Apache-2.0
"""Start a lab, inspect it, and remove it without a trace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from . import as_delivered, limits
from .access import host_key, make_key, write_access
from .builder import Builds, abandon
from .cache import Cache
from .catalog import write_catalog
from .containers import LABEL, create_network, remove, start_node, start_services, start_switch
from .engine import EngineArtifacts
from .engine import build as build_engine_image
from .host import (
    Engine,
    Say,
    engine_to_clean,
    ensure_engine,
    find_engine,
    require_engine,
    start_private,
    stop_private,
)
from .images import BUILD_PREFIX, NodeImages, ensure_images, equipment
from .processors import share_with
from .shell import LabError
from .spec import FIRST_NODE_HOST, PROFILES, SERVICES_HOST, LabSpec, Node, container_name
from .waiting import wait_for_node, wait_for_services
from .wheels import fetch_uv, write_index

SNAPSHOTS = "snapshots"
"""Name of the directory for snapshots in a lab's own directory."""


class Lab:
    """A lab with its name, cache and engine."""

    def __init__(self, cache: Cache, name: str, say: Say) -> None:
        self.cache = cache
        self.name = name
        self.say = say
        self.directory = cache.lab(name)

    # -- up ---------------------------------------------------------------------------------------------------

    def up(self, spec: LabSpec) -> None:
        """Start everything that is not running yet; idempotent."""
        require_engine(self.cache)
        with self.cache.locked():
            engine = ensure_engine(self.cache, self.say)
            images, artifacts = self._build(engine, spec)
            if self._running(engine):
                self._unpause(engine)
                self._wait_for_all(engine)
                self.say(f"The lab {self.name} is already up")
                return
            remove(engine, self.name)
            shutil.rmtree(self.directory / SNAPSHOTS, ignore_errors=True)  # of nodes that no longer exist
            others = [path for path in self.cache.labs.glob("*/lab.json") if path.parent != self.directory]
            nodes = limits.nodes_of(others) + len(spec.nodes)
            limits.raise_for(self.cache, nodes, self.say)
            network = create_network(engine, self.name)
            self.directory.mkdir(parents=True, exist_ok=True)
            factory = PROFILES[spec.profile].factory
            write_catalog(self.cache, self.directory / "catalog", artifacts, factory, spec.system)
            uv = fetch_uv(self.cache.wheels)
            write_index(self.directory / "wheels", self.directory / "catalog" / "locks", [uv])
            addresses = {node.name: f"{network}.{FIRST_NODE_HOST + index}" for index, node in enumerate(spec.nodes)}
            write_access(self.directory, spec, addresses)
            self._write_record(spec, addresses, network)
            if spec.as_delivered:
                as_delivered.password(self.directory)  # generate it before the nodes start in parallel
            self.say(f"Starting {len(spec.nodes)} nodes and the services node")
            start_services(engine, self.cache, self.name, images, network, spec.system)
            if engine.private:
                share_with(nodes)
            with ThreadPoolExecutor(max_workers=4) as pool:

                def start(node: Node) -> None:
                    image = images.bare if node.bare else images.node
                    start_node(engine, self.directory, spec, image, node, addresses[node.name])

                list(pool.map(start, spec.nodes))
            start_switch(engine, spec, images)
            self._wait_for_all(engine)
        self.say(f"The lab {self.name} is up: {', '.join(addresses)}")
        if spec.as_delivered:
            self.say(
                f"Only {as_delivered.USER} can log in, with the password in {self.directory / as_delivered.PASSWORD}"
            )

    def _write_record(self, spec: LabSpec, addresses: dict[str, str], network: str) -> None:
        record = {
            "name": self.name,
            "profile": spec.profile,
            "fabric_mtu": spec.fabric_mtu,
            "as_delivered": spec.as_delivered,
            "system": spec.system,
            "network": f"{network}.0/24",
            "nodes": [{**asdict(node), "address": addresses[node.name]} for node in spec.nodes],
        }
        self.write_record(record)

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Write the lab's current state to its record."""
        (self.directory / "lab.json").write_text(json.dumps(record, indent=2) + "\n")

    def _wait_for_all(self, engine: Engine) -> None:
        """Wait until every recorded node has booted, has its cables and accepts logins."""
        record = self.record()
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda node: wait_for_node(engine, self._container(node["name"]), node), record["nodes"]))
        wait_for_services(record["network"].rpartition(".")[0] + f".{SERVICES_HOST}")

    def _build(self, engine: Engine, spec: LabSpec) -> tuple[NodeImages, EngineArtifacts]:
        """Build node images and inference image in parallel: the former waits for packages, the latter for wheels."""
        builds = Builds(self.cache, engine, self.say)

        def inference_image() -> EngineArtifacts:
            builds.provide("inference")
            return build_engine_image(self.cache.root, self.say)

        with ThreadPoolExecutor(max_workers=2) as pool:
            inference = pool.submit(inference_image)
            try:
                builds.provide(spec.system)
                images = ensure_images(self.cache, engine, PROFILES[spec.profile].factory, self.say, spec.system)
                return images, inference.result()
            except BaseException:
                builds.give_up()
                raise

    def _container(self, node: str) -> str:
        return container_name(self.name, node)

    def _running(self, engine: Engine) -> bool:
        path = self.directory / "lab.json"
        if not path.exists():
            return False
        wanted = {self._container(node["name"]) for node in json.loads(path.read_text())["nodes"]}
        wanted |= {self._container("switch"), self._container("services")}
        names = engine.docker("ps", "--filter", f"label={LABEL}={self.name}", "--format", "{{.Names}}").split()
        return wanted <= set(names)

    def _unpause(self, engine: Engine) -> None:
        """Unpause nodes left paused by a snapshot that was killed."""
        asked = ("--filter", f"label={LABEL}={self.name}", "--filter", "status=paused")
        paused = engine.docker("ps", "-q", *asked).split()
        if paused:
            engine.docker("unpause", *paused)

    def exchange(self, node: str) -> None:
        """Replace a node by another machine of the same kind: an empty disk, and a new, unknown host key."""
        record, engine, container = self.record(), self.engine(), self.container(node)
        entry = next(one for one in record["nodes"] if one["name"] == node)
        entry["replaced"] = entry.get("replaced", 0) + 1
        image = engine.docker("inspect", "--format", "{{.Config.Image}}", container).strip()
        spec = LabSpec(self.name, record["profile"], (), record["fabric_mtu"], record["as_delivered"])
        made = Node(**{key: value for key, value in entry.items() if key != "address"})
        engine.docker("rm", "-f", "-v", container)
        make_key(host_key(self.directory, node), node)
        self.write_record(record)
        start_node(engine, self.directory, spec, image, made, entry["address"])
        self.wait_for(node)

    # -- status, fabric, down -----------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """Load the record that `up` wrote. Raises LabError if there is no such lab."""
        path = self.directory / "lab.json"
        if not path.exists():
            known = sorted(p.name for p in self.cache.labs.glob("*") if (p / "lab.json").exists())
            raise LabError(
                f"There is no lab {self.name!r}. "
                + (f"Labs that are up: {', '.join(known)}." if known else "Start one with: firstlight lab up")
            )
        result: dict[str, Any] = json.loads(path.read_text())
        return result

    def status(self) -> list[dict[str, Any]]:
        """Return one row per node: container state, systemd state, and cabled ports."""
        record = self.record()
        engine = find_engine(self.cache)
        linked: dict[str, list[str]] = {}
        if engine is not None:
            asked = ("python3", "-c", equipment("switch.py"), "links")
            linked = json.loads(engine.docker("exec", self._container("switch"), *asked, check=False) or "{}")
        rows = []
        for node in record["nodes"]:
            row = {"name": node["name"], "address": node["address"], "state": "stopped", "ports": []}
            if engine is not None:
                container = self._container(node["name"])
                state = engine.docker("exec", container, "systemctl", "is-system-running", check=False).strip()
                links = engine.docker("exec", container, "ls", "/sys/class/net", check=False).split()
                row["state"] = state or "stopped"
                row["ports"] = [port for port in linked.get(container, []) if port in links]
            rows.append(row)
        return rows

    def container(self, node: str) -> str:
        """Return the container of a node, the switch or the services."""
        known = [entry["name"] for entry in self.record()["nodes"]] + ["services", "switch"]
        if node not in known:
            raise LabError(f"There is no node {node!r} in the lab {self.name}; its nodes are {', '.join(known)}.")
        return self._container(node)

    def wait_for(self, node: str) -> None:
        """Wait until a started node has booted, has its cables and accepts logins."""
        record = self.record()
        if node == "services":
            wait_for_services(record["network"].rpartition(".")[0] + f".{SERVICES_HOST}")
        for entry in record["nodes"]:
            if entry["name"] == node:
                wait_for_node(self.engine(), self._container(node), entry)

    def engine(self) -> Engine:
        """Return the engine that runs this lab. Raises LabError if there is none."""
        engine = find_engine(self.cache)
        if engine is None:
            raise LabError(f"The lab {self.name} has no running Docker engine. Start it again with: firstlight lab up")
        return engine

    def down(self) -> None:
        """Remove every trace of this lab; for the last one, also stop the private engine."""
        with self.cache.locked():
            engine = engine_to_clean(self.cache)
            if engine is not None:
                left = remove(engine, self.name)
                self.say(f"The lab {self.name} is down")
                if left:
                    self.say(f"The engine counts endpoints on {', '.join(left)} that are gone; its next start fixes it")
                if not engine.docker("ps", "-aq", "--filter", f"label={LABEL}").strip():
                    self._remove_shared(engine)
            elif self.cache.runtime.exists():
                limits.restore(self.cache)
                stop_private(self.cache, self.say)
            shutil.rmtree(self.directory, ignore_errors=True)

    def _remove_shared(self, engine: Engine) -> None:
        """Remove what labs share and none needs any more: our engine, or our images in another engine."""
        limits.restore(self.cache)
        abandon(self.cache, engine)
        left = remove(engine)  # networks and volumes of a lab whose removal was interrupted
        if left and not engine.private:
            raise LabError(
                f"The Docker engine at {engine.address} counts endpoints on {', '.join(left)} that are gone, and does "
                "not remove what it believes to be in use (moby/moby#42119). Restart it, then: firstlight lab down"
            )
        if left:
            stop_private(self.cache, self.say)
            engine = start_private(self.cache)
            remove(engine)
        stale = engine.docker("ps", "-aq", "--filter", f"name=^/{BUILD_PREFIX}").split()
        if stale:
            engine.docker("rm", "-f", "-v", *stale)
        if engine.private:
            stop_private(self.cache, self.say)
            return
        images = engine.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "firstlight-lab/*").split()
        if images:
            engine.docker("image", "rm", *images)


def labs_up(cache: Cache) -> Iterable[str]:
    """Return the names of the labs that are up."""
    return sorted(path.parent.name for path in cache.labs.glob("*/lab.json"))
