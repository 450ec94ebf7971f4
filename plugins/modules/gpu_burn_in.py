#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `gpu_burn_in`: whether the GPUs of a host compute, right and as fast as they should."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_burn_in
short_description: Test whether every GPU of a host computes correctly and as fast as it should
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Runs a short program with PyTorch on all GPUs at once, in a container of an image that is on the host or with the
    interpreter of a virtual environment. It measures bf16 and FP8 matrix products, memory bandwidth, copies from and
    to the host and, with several GPUs, an all-reduce; repeats products that must always have the same bits; and
    reads clocks, power, temperature and reasons for lower clocks meanwhile.
  - Where C(dcgmi) is installed on the host, NVIDIA's diagnostic of level 1 is run after it, too.
  - The result is evaluated by the hardware profile and kept in O(record). It holds for these GPUs, this driver and this
    engine; as long as it does and every check is right, nothing is run again.
  - Refuses while the cluster serves on the host, or another process computes on its GPUs. A check that is not right
    does not fail the task; it is in RV(wrong), and so is a run that was refused, except where the cluster serves and
    O(force) is not set, as nobody stops a cluster to try it.
options:
  image:
    description: An image with Python and PyTorch that is on the host already. Nothing is pulled.
    type: str
    default: ""
  python:
    description: In place of O(image), the interpreter of a virtual environment that has PyTorch.
    type: path
  engine:
    description: What the result is valid for, if that is more than the image's reference or the interpreter's path.
    type: str
    default: ""
  hardware:
    description: The hardware profile's entry, as catalog/hardware has it.
    type: dict
    required: true
  profile:
    description: The profile's name, for messages.
    type: str
    default: unnamed
  device:
    description: What to run on. V(cpu) tries the program where there is no GPU, and evaluates no rate.
    type: str
    choices: [cuda, cpu]
    default: cuda
  seconds:
    description: How long each measurement under load takes.
    type: float
    default: 5
  timeout:
    description: Seconds after which the run is given up. What it knows by then is evaluated. NVIDIA's diagnostic has
      three minutes of its own.
    type: int
    default: 300
  record:
    description: Where the result is kept on the host.
    type: path
    default: /var/lib/firstlight/gpu-burn-in.json
  force:
    description: Whether to run it although a result that holds is there.
    type: bool
    default: false
  accept:
    description: Ids of checks that may be as they are.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports whether a run is due, and evaluates the stored result. Runs nothing.
    support: full
  diff_mode:
    description: Changes no setting, so there is nothing to show.
    support: none
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Burn in the GPUs with the image that will serve on them
  firstlight.cluster.gpu_burn_in:
    image: vllm/vllm-openai@sha256:0123
    profile: h200-sxm-1
    hardware: {gpus: 1, gpu_name: NVIDIA H200, tflops: {bf16: 989.4, fp8: 1978.9}, burn_in: {bf16: 0.6, fp8: 0.6}}
  register: accepted
  failed_when: accepted.wrong | length > 0
"""

RETURN = r"""
ran:
  description: Whether it was run now.
  returned: success
  type: bool
due:
  description: Whether no result that holds and is right was there.
  returned: success
  type: bool
refused:
  description: Why it was not run although it was due; empty when it was.
  returned: success
  type: str
measured:
  description: The figures, by GPU. UUIDs are hashed.
  returned: success
  type: dict
checks:
  description: Every check with id, verdict, expected, observed, remedy and command.
  returned: success
  type: list
  elements: dict
lines:
  description: Every check in a line for people.
  returned: success
  type: list
  elements: str
wrong:
  description: One line for every check that is not right and not in O(accept).
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.host_run import Request, accept, result_of
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.runs import RECORD_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import expected_by
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host


def request_of(parameters: dict[str, object]) -> Request:
    """The parameters; raises ValueError for a profile that is none, and where there is nothing to run with."""
    expected = expected_by(parameters)
    image, python = str(parameters["image"] or ""), str(parameters["python"] or "")
    if bool(image) == bool(python):
        raise ValueError(
            f"image is {image!r} and python is {python!r}, expected one of them: name an image that is on the host, or "
            "the interpreter of a virtual environment with PyTorch"
        )
    return Request(
        expected=expected,
        image=image,
        python=python,
        engine=str(parameters["engine"] or ""),
        device=str(parameters["device"]),
        seconds=float(str(parameters["seconds"])),
        timeout=float(str(parameters["timeout"])),
        record=str(parameters["record"]),
        force=bool(parameters["force"]),
        accept=tuple(str(one) for one in parameters["accept"]),  # type: ignore[attr-defined]
    )


def main() -> None:
    """Read the parameters, run it where it is due, report."""
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "default": ""},
            "python": {"type": "path"},
            "engine": {"type": "str", "default": ""},
            "hardware": {"type": "dict", "required": True},
            "profile": {"type": "str", "default": "unnamed"},
            "device": {"type": "str", "choices": ["cuda", "cpu"], "default": "cuda"},
            "seconds": {"type": "float", "default": 5},
            "timeout": {"type": "int", "default": 300},
            "record": {"type": "path", "default": RECORD_PATH},
            "force": {"type": "bool", "default": False},
            "accept": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        outcome = accept(Host(), request_of(module.params), look_only=module.check_mode)
    except ValueError as error:
        module.fail_json(msg=f"The burn-in cannot be started: {error}")
    except OSError as error:
        module.fail_json(
            msg=f"{module.params['record']} could not be written ({error.strerror}), expected a place for the result: "
            "make room or correct the directory"
        )
    else:
        module.exit_json(**result_of(outcome))


if __name__ == "__main__":
    main()
