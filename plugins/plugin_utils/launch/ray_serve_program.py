# SPDX-License-Identifier: Apache-2.0
"""The program that serves replicas with Ray Serve: it deploys them, stays, and removes them when stopped."""

from __future__ import annotations

# It runs in a container of the image next to the head's Ray. Its definitions are sent to Ray's workers by value,
# because they do not have this file; so each function imports what it needs.
SERVE_PROGRAM = '''
"""Serves replicas of one model behind one address. The argument is the settings file."""

import dataclasses
import hashlib
import hmac
import json
import os
import signal
import sys
import time

APPLICATION = "firstlight"
WORKS_WITH = "2.60"
EVERY = 2.0
TAKEN_DOWN_WITHIN = 20


class KeyCheck:
    """Asks every request for the API key; it knows the digest only. /health is open, as the engine's own is."""

    def __init__(self, app, digest):
        self.app, self.digest = app, digest

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] == "/health" or self.knows(scope):
            await self.app(scope, receive, send)
            return
        body = json.dumps({"error": "Unauthorized"}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def knows(self, scope):
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(hashlib.sha256(key).hexdigest(), self.digest)


def engine_arguments(words):
    """The engine's own parser reads its arguments: what differs from its defaults is what was asked for."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import FrontendArgs, make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    known = {field.name for kind in (AsyncEngineArgs, FrontendArgs) for field in dataclasses.fields(kind)}
    parser = make_arg_parser(FlexibleArgumentParser())
    asked, usual = vars(parser.parse_args(words)), vars(parser.parse_args([]))
    return {name: value for name, value in asked.items() if name in known and value != usual.get(name)}


def parts_of_ray():
    """What Ray has of LLM serving. Two of them have no public name: a Ray without them is told here, and only here."""
    import ray

    try:
        from ray.llm._internal.serve.core.configs.openai_api_models import to_model_metadata
        from ray.llm._internal.serve.core.ingress.ingress import init
        from ray.serve.llm import LLMConfig, build_llm_deployment
        from ray.serve.llm.ingress import OpenAiIngress, make_fastapi_ingress
    except ImportError as error:
        raise SystemExit(
            f"Ray {ray.__version__} of this image cannot serve as it is asked to here: {error}. Expected Ray "
            f"{WORKS_WITH}.x with ray[serve], pyarrow and httpx: pin a stack with it, or use profile vllm-ray"
        ) from error
    return LLMConfig, build_llm_deployment, OpenAiIngress, make_fastapi_ingress, init, to_model_metadata


def application(settings, digest):
    """The replicas, each on GPUs of one node, and in front of them what speaks HTTP, on the head."""
    from ray import serve

    LLMConfig, build_llm_deployment, OpenAiIngress, make_fastapi_ingress, init, to_model_metadata = parts_of_ray()
    name = settings["served_name"]
    config = LLMConfig(
        model_loading_config={"model_id": name, "model_source": settings["model_directory"]},
        engine_kwargs={**engine_arguments(settings["arguments"]), "tensor_parallel_size": settings["tensor_parallel"]},
        placement_group_config={"bundles": [{"GPU": 1}] * settings["tensor_parallel"], "strategy": "STRICT_PACK"},
        deployment_config={
            "num_replicas": settings["replicas"],
            "ray_actor_options": {"num_cpus": 0},
            **settings["deployment"],
        },
        runtime_env={"env_vars": settings["environment"]},
        log_engine_metrics=False,
    )
    door = init()
    door.add_middleware(KeyCheck, digest=digest)
    door.get("/health")(healthy)
    ingress = serve.deployment(
        make_fastapi_ingress(OpenAiIngress, app=door),
        num_replicas=1,
        max_ongoing_requests=1000000,
        health_check_period_s=settings["deployment"]["health_check_period_s"],
        # Beside the address it answers at: a request crosses the fabric once.
        ray_actor_options={"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}},
    )
    return ingress.bind(
        llm_deployments={name: build_llm_deployment(config)}, model_cards={name: to_model_metadata(name, config)}
    )


def healthy() -> dict:
    return {}


def gathered(ray, settings):
    """Wait for the planned nodes and go on without those that do not come: a replica less is not none."""
    wanted, deadline = set(settings["nodes"]), time.monotonic() + settings["join_timeout"]
    while True:
        here = {
            node["NodeManagerAddress"]
            for node in ray.nodes()
            if node["Alive"] and (node.get("Resources") or {}).get("GPU", 0) >= settings["tensor_parallel"]
        }
        if wanted <= here:
            return
        if time.monotonic() >= deadline:
            break
        time.sleep(EVERY)
    missing, limit = ", ".join(sorted(wanted - here)), settings["join_timeout"]
    if not wanted & here:
        raise SystemExit(f"no planned node is in Ray's cluster with its GPUs after {limit} s: {missing}")
    say(f"goes on without {missing}: not in Ray's cluster with its GPUs after {limit} s")


def running(status):
    """How many replicas of the model answer, and what Serve says of them."""
    models = [one for name, one in status.deployments.items() if name != "OpenAiIngress"]
    count = sum(int(one.replica_states.get("RUNNING", 0)) for one in models)
    return count, "; ".join(one.message for one in models if one.message) or status.message


def watch(serve, settings):
    """Stay while at least one replica answers, or may still come."""
    told, seen = None, time.monotonic()
    while True:
        status = serve.status().applications.get(APPLICATION)
        if status is None:
            raise SystemExit("the application is gone from Ray Serve: somebody deleted it")
        count, words = running(status)
        if count != told:
            say(f"{count} of {settings['replicas']} replicas answer")
            told = count
        if count:
            seen = time.monotonic()
        elif str(status.status.value) == "DEPLOY_FAILED":
            raise SystemExit(f"the replicas cannot start: {words}")
        elif time.monotonic() - seen > settings["start_timeout"]:
            raise SystemExit(f"no replica has answered for {settings['start_timeout']} s: {words}")
        time.sleep(EVERY)


def say(words):
    print(f"firstlight: {words}", flush=True)


def stop(number, frame):
    raise KeyboardInterrupt


def main():
    import ray
    from ray import serve

    with open(sys.argv[1], encoding="utf-8") as stream:
        settings = json.load(stream)
    key = os.environ.pop("VLLM_API_KEY", "")
    if not key:
        raise SystemExit("VLLM_API_KEY is not set, expected the API key from the root-only environment file")
    digest = hashlib.sha256(key.encode()).hexdigest()
    ray.init(address=os.environ["RAY_ADDRESS"], logging_level="WARNING", log_to_driver=True)
    signal.signal(signal.SIGTERM, stop)  # after Ray has set its own, which ends with a failure
    try:
        gathered(ray, settings)
        serve.shutdown()  # what a program before this one may have left
        serve.start(
            proxy_location="HeadOnly", http_options={"host": settings["listen"], "port": settings["port"]}
        )
        target = serve.RunTarget(application(settings, digest), name=APPLICATION, route_prefix="/")
        serve.run_many([target], wait_for_applications_running=False)
        say(f"deploys {settings['replicas']} replicas of {settings['served_name']}")
        watch(serve, settings)
    except KeyboardInterrupt:
        say("told to stop: takes the replicas down")
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(TAKEN_DOWN_WITHIN)  # Ray may be gone already
        serve.shutdown()


if __name__ == "__main__":
    main()
'''
"""Its settings are those of ray_serve.serve_settings."""
