# SPDX-License-Identifier: Apache-2.0
"""The tools whose output can be parsed: the command, how to recognise its output, and the parser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..parsers.dcgm_diag import parse_dcgm_diag
from ..parsers.fabric_manager import parse_fabric_manager
from ..parsers.kernel_log import parse_kernel_log
from ..parsers.lspci import parse_lspci
from ..parsers.modules import parse_modules
from ..parsers.nvlink import parse_nvlink
from ..parsers.proc_version import parse_proc_version
from ..parsers.query_gpu import parse_query_gpu
from ..parsers.ray_status import parse_ray_status
from ..parsers.smi_list import parse_smi_list
from ..parsers.smi_log import parse_smi_log
from ..parsers.smi_table import parse_smi_table
from ..parsers.smi_version import parse_smi_version
from ..parsers.smi_xml import parse_smi_xml
from ..parsers.topo import parse_topo
from ..parsers.vllm_metrics import parse_vllm_metrics
from .port_reading import parse_ports

Parsed = tuple[dict[str, Any], list[str]]


@dataclass(frozen=True)
class Kind:
    """One tool's output: the command whose output is best captured, and how to tell it from other text.

    `commands` and `files` are patterns for a command line and for a file's name; `marks` for lines that only this tool
    prints. `opens` are marks that begin its output, by which the text of several tools without prompts is split.
    """

    name: str
    parser: Callable[[str], Parsed]
    command: str
    commands: str
    marks: tuple[str, ...]
    files: str
    opens: str = ""


_FIELD = (
    r"(?:timestamp|index|name|gpu_name|uuid|gpu_uuid|gpu_bus_id|pci\.[a-z_]+|serial|gpu_serial|count|driver_version|"
    r"memory\.[a-z]+|compute_cap|[a-z_]+(?:\.[a-z_]+)+)"
)
_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f.]+"
_PRODUCT = r"(?:NVIDIA|Tesla|Quadro|GeForce)"
_PCI_DEVICE = (
    r"\s*(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7] "
    r"(?:\"?[0-9a-f]{4}\"?:? \"?10de|(?:VGA|3D|Bridge|Display)\b.{0,80}NVIDIA|.{0,200}\[10de:)"
)
_TOPO_HEADER = r"\s*GPU\d+\s+(?:GPU\d+|NIC\d+|mlx\d*_?\w+|CPU Affinity)\b"

LISTED = (
    Kind(
        "topo",
        parse_topo,
        "nvidia-smi topo -m",
        r"nvidia-smi\s+topo\s+(?:-m|--matrix)",
        (
            _TOPO_HEADER,
            r"\s*(?:GPU|NIC)\d+(?:\s+X|(?:\s+(?:NV\d+|PIX|PXB|PHB|NODE|SYS|SOC))+)\b",
            r"\s*(?:SYS|PXB|NV#)\s+=\s",
        ),
        r"topo",
        opens=_TOPO_HEADER,
    ),
    Kind(
        "nvlink",
        parse_nvlink,
        "nvidia-smi nvlink -s",
        r"nvidia-smi\s+nvlink\b",
        (
            r"\s*Link\s+\d+\s*[:,]",
            r"(?i).*does not have or support Nvlink",
            r"(?i).*all links are in-?active|.*unable to retrieve nvlink",
            r"(?i)\s*GPU\s+\d+:.*nvlink|.*nvlink queries are not supported",
        ),
        r"nvlink",
    ),
    Kind(
        "query-gpu",
        parse_query_gpu,
        "nvidia-smi --query-gpu=... --format=csv",
        r"nvidia-smi\s(?:.*\s)?--query-(?:gpu|remapped-rows)\b",
        (
            rf"\s*{_FIELD}(?: \[[\w%/]+\])?,\s*(?:{_FIELD}|\.\.\.)",
            rf"\s*(?:\d{{1,2}},\s*)?{_PRODUCT} [^,|]{{2,60}},\s*\S",
            rf"\s*(?:\d{{1,2}},\s*)?(?:{_BUS}|GPU-[\w-]+),\s*{_PRODUCT} ",
        ),
        r"query[-_.]?(?:gpu|basic|wide|nounits)|gpu[-_.]?query|\.csv$",
        opens=rf"\s*{_FIELD}(?: \[[\w%/]+\])?,\s*{_FIELD}",
    ),
    Kind(
        "smi-xml",
        parse_smi_xml,
        "nvidia-smi -q -x",
        r"nvidia-smi\b(?=.*\s(?:-q|--query)\b)(?=.*\s(?:-x|--xml-format)\b)|nvidia-smi\s+-(?:qx|xq)\b",
        (r"\s*<\?xml\b", r"\s*<!DOCTYPE nvidia_smi_log", r"\s*</?nvidia_smi_log>", r"\s*<(?:gpu id=|attached_gpus>)"),
        r"(?:^|[-_.])(?:qx|xml)(?:[-_.]|$)",
        opens=r"\s*(?:<\?xml\b|<nvidia_smi_log>)",
    ),
    Kind(
        "smi-q",
        parse_smi_log,
        "nvidia-smi -q",
        r"nvidia-smi\s(?:.*\s)?(?:-q|--query)(?:\s|$)",
        (
            r"\s*=+\s*NVSMI LOG\s*=+",
            r"\s*Attached GPUs\s+:",
            r"\s*GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:",
            r"\s*Product Name\s+:",
        ),
        r"smi[-_.]?(?:q|log)(?:[-_.]|$)|^q(?:[-_.]|$)",
        opens=r"\s*=+\s*NVSMI LOG\s*=+",
    ),
    Kind(
        "smi-list",
        parse_smi_list,
        "nvidia-smi -L",
        r"nvidia-smi\s(?:.*\s)?(?:-L|--list-gpus)\b",
        (r"\s*GPU\s+\d+:\s.*\(UUID:", r"\s*MIG\s+\S+\s+Device\s+\d+:"),
        r"smi[-_.]?(?:l|list)(?:[-_.]|$)",
    ),
    Kind(
        "smi-version",
        parse_smi_version,
        "nvidia-smi --version",
        r"nvidia-smi\s+--version\b",
        (r"\s*NVIDIA-SMI version\s*:", r"\s*NVML version\s*:", r"\s*(?:DRIVER|KMD) version\s*:"),
        r"smi[-_.]?version",
        opens=r"\s*NVIDIA-SMI version\s*:",
    ),
    Kind(
        "smi-table",
        parse_smi_table,
        "nvidia-smi",
        r"nvidia-smi(?:\s+(?:-i|--id)[ =]\S+)?\s*(?:$|[|;&>]|2>)",
        (
            r"\s*\|?\s*NVIDIA-SMI\s+\d",
            r"\s*\|\s*GPU\s+(?:Name|GI)\b",
            r"\s*\|\s*Processes:",
            r"\s*NVIDIA-SMI has failed",
            r"\s*Failed to initialize NVML",
            r"\s*Unable to determine the device handle",
            r"\s*No devices were found",
            r".*nvidia-smi['\"]?:? (?:command )?not found",
        ),
        r"smi[-_.]?table|^nvidia[-_.]?smi(?:\.\w+)?$",
        opens=r"\s*\|\s*NVIDIA-SMI\s+\d",
    ),
    Kind(
        "proc-version",
        parse_proc_version,
        "cat /proc/driver/nvidia/version",
        r"(?:cat|head|grep)\s.*/(?:(?:proc/driver|sys/module)/nvidia/version|proc/driver/nvidia/gpus)",
        (
            r"\s*NVRM version:",
            r"\s*GCC version:",
            r"\s*Bus Location:\s+[0-9A-Fa-f]{4}:",
            r".*/proc/driver/nvidia/version: No such file",
        ),
        r"proc.*version|module[-_.]?version|proc[-_.]?gpus",
        opens=r"\s*NVRM version:",
    ),
    Kind(
        "fabricmanager",
        parse_fabric_manager,
        "systemctl status nvidia-fabricmanager",
        r"(?:systemctl|journalctl|cat|tail|head)\s.*(?:nvidia-)?fabric-?manager|nv-fabricmanager\b",
        (
            r".*\bnvidia-fabricmanager\.service\b",
            r".*\bnv-fabricmanager\b",
            r"(?i).*fabric ?manager (?:version|service|state|has)",
            r".*\[(?:INFO|ERROR|WARNING|NOTICE)\] \[tid \d+\]",
            r"(?i)(?:Unit )?nvidia-fabricmanager\S* could not be found",
        ),
        r"fabric[-_.]?manager",
        opens=r"[\u25cf\u25cb\u00d7*x]\s+nvidia-fabricmanager\.service\b",
    ),
    Kind(
        "ibstat",
        parse_ports,
        "ibstat",
        r"(?:ibstat|ibstatus|ibv_devinfo)\b",
        (
            r"\s*CA:?\s+['\"]\S+['\"]",
            r"(?i)\s*infiniband device ",
            r"\s*hca_id:",
            r"\s*CA type:",
            r"\s*Physical state:",
        ),
        r"ibstat|ibv[-_.]?devinfo",
    ),
    Kind(
        "ibdev2netdev",
        parse_ports,
        "ibdev2netdev",
        r"ibdev2netdev\b",
        (r".*\bport\s+\d+\s+(?:\([^)]*\)\s+)?=+>",),
        r"ibdev2netdev",
    ),
    Kind(
        "rdma-link",
        parse_ports,
        "rdma link",
        r"rdma\s+(?:-\S+\s+)*(?:link|dev)?",
        (r"\s*(?:link\s+|\d+/\d+:\s*)\S+/\d+:?\s.*\bstate\b", r".*\"physical_state\"\s*:"),
        r"rdma[-_.]?link",
    ),
    Kind(
        "ethtool",
        parse_ports,
        "ethtool PORT",
        r"ethtool\b",
        (r"\s*Settings for \S+", r"\s*FEC parameters for ", r"\s*Speed:\s*(?:\d|Unknown)", r"\s*Link detected:"),
        r"ethtool",
    ),
    Kind(
        "ray-status",
        parse_ray_status,
        "ray status",
        r"(?:python3?\s+-m\s+)?ray\s+status\b|docker\s.*\sray\s+status\b",
        (
            r"\s*(?:# )?=+ (?:Autoscaler|Cluster) status",
            r"\s*(?:Total )?Usage:",
            r"\s*\d+(?:\.\d+)?/\d+(?:\.\d+)?\s+(?:CPU|GPU)\b",
            r"\s*(?:Recent failures|Pending Demands|Demands):",
            r"(?i).*could not find any running ray instance",
            r"(?i).*ray cluster is not found",
            r"(?i).*failed to connect to (?:gcs|ray)",
        ),
        r"(?:^|[-_.])ray(?:[-_.]|$)",
        opens=r"\s*=+ (?:Autoscaler|Cluster) status",
    ),
    Kind(
        "vllm-metrics",
        parse_vllm_metrics,
        "curl http://127.0.0.1:290/metrics",
        r"(?:curl|wget)\s.*/metrics\b",
        (r"\s*(?:# (?:HELP|TYPE) )?(?:ray_)?vllm[:_]\w+",),
        r"vllm|metrics",
    ),
    Kind(
        "lspci",
        parse_lspci,
        "lspci -D -n -d 10de:",
        r"lspci(?!.*\s(?:-\w*[vxt]|-s\b))(?:\s|$)",
        (_PCI_DEVICE,),
        r"lspci",
        opens=_PCI_DEVICE,
    ),
    Kind(
        "modules",
        parse_modules,
        "lsmod",
        r"lsmod\b|(?:cat|grep)\s.*/proc/modules",
        (
            r"Module\s+Size\s+Used by",
            r"(?:nvidia|ib|mlx|nv)_?\w*\s+\d{3,10}\s+(?:-|\d+)(?:\s|$)",
            r"\w+ \d+ (?:-|\d+) \S+ (?:Live|Loading|Unloading)\b",
        ),
        r"lsmod|modules",
        opens=r"Module\s+Size\s+Used by",
    ),
    Kind(
        "dcgm-diag",
        parse_dcgm_diag,
        "dcgmi diag -r 1 -j",
        r"dcgmi\s+diag\b",
        (r".*\"DCGM (?:GPU )?Diagnostic\"\s*:", r".*\"test_categories\"\s*:"),
        r"dcgm",
    ),
    Kind(
        "kernel-log",
        parse_kernel_log,
        "dmesg",
        r"(?:dmesg|journalctl)\b|(?:cat|grep|tail|zgrep)\s.*(?:/var/log/(?:kern|syslog|messages|dmesg)|Xid)",
        (
            r".*\bNVRM: (?!version)",
            r".*\bSXid \(PCI",
            r"\s*\[?\s*\d+\.\d{6}\] ",
            r"\s*\[\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}\] ",
            r"(?:\w{3} +\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,+Z-]+) \S+ [\w./-]+(?:\[\d+\])?: ",
            r"kern\s+:\w+\s+:",
        ),
        r"dmesg|kern|syslog|xid|kmsg|journal",
    ),
)
