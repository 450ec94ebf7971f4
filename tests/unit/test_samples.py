# SPDX-License-Identifier: Apache-2.0
"""Captures of real machines that are not ours to ship: each is read where the folder is at hand, and evaluated rightly.

Every file has its expected result written down here, derived from reading it: the kind, the profile it is evaluated by,
and the verdicts that matter. The repository's own tests cover every shape without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.capture_parts import parts
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture, diagnose
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import (
    COULD_NOT_CHECK,
    FAIL,
    NOT_APPLICABLE,
    PASS,
)

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT.parent / "shared" / "samples"

UNKNOWN = COULD_NOT_CHECK
NOTHING = "nothing passes"
"""For a text that no check can be made from; none may pass, whatever else is said."""


class Sample(NamedTuple):
    """What a file is, and what must come of it."""

    kind: str | None
    hardware: str
    verdicts: Mapping[str, str] | str


H8, H4, MESH, PCIE, H200, SPARK = "h100-sxm-8", "h100-sxm-4-nvswitch", "h100-sxm-4", "h100-pcie", "h200-sxm-1", "gb10"
NV18 = {"topo.pairs": PASS, "gpu.count": PASS}
# A whole text of another machine is no false pass: what it shows is right, and that GPUs are missing is a fail.
OTHER_COUNT = {"gpu.count": FAIL}
ONE_H100 = {"gpu.count": FAIL, "gpu.name": PASS}

EXPECTED: dict[str, Sample] = {
    # --- topo -m
    "topo_m_8xh100_12nic_pix_pxb_full.txt": Sample("topo", H8, {**NV18, "topo.nics": PASS}),
    "topo_m_8gpu_12nic_numa_off.txt": Sample("topo", H8, {**NV18, "topo.nics": PASS}),
    "topo_m_8gpu_12nic_numa_off_jammed_cells.txt": Sample("topo", H8, NV18),
    "topo_m_8xh100_sxm_stas00.txt": Sample("topo", H8, {**NV18, "topo.nics": NOT_APPLICABLE}),
    "topo_m_8xh100_sxm_stas00_ht.txt": Sample("topo", H8, {**NV18, "topo.nics": NOT_APPLICABLE}),
    "topo_matrix_8xh100_rhelai_vm.txt": Sample("topo", H8, NV18),
    "topo_m_4xh100_bare_matrix.txt": Sample("topo", H4, NV18),
    "derived_topo_m_4xh100_nv6_mesh.txt": Sample("topo", MESH, {**NV18, "topo.nics": PASS}),
    "topo_m_2gpu_phb_stas00.txt": Sample("topo", PCIE, {"topo.pairs": PASS, "gpu.count": PASS}),
    "topo_m_4gpu_pcie_pix_phb.txt": Sample("topo", H4, {"topo.pairs": FAIL, "gpu.count": PASS}),
    "topo_m_4xl40s_header_stripped_tab.txt": Sample("topo", H4, {"topo.pairs": FAIL, "gpu.count": PASS}),
    "topo_m_6gpu_pcie_pix_node_sys.txt": Sample("topo", PCIE, {"topo.pairs": PASS, "gpu.count": PASS}),
    "topo_m_8gpu_pcie_no_affinity.txt": Sample("topo", H8, {"topo.pairs": FAIL, "gpu.count": PASS}),
    "derived_topo_m_2gpu_vm_empty_affinity.txt": Sample("topo", PCIE, {"topo.pairs": FAIL, "gpu.count": PASS}),
    "topo_m_gb10_dgx_spark.txt": Sample("topo", SPARK, {"gpu.count": PASS, "topo.pairs": NOT_APPLICABLE}),
    "topo_m_h100_vm_1gpu.txt": Sample("topo", H200, {"gpu.count": PASS, "topo.pairs": NOT_APPLICABLE}),
    "topo_m_h100_mig.txt": Sample("topo", H8, OTHER_COUNT),
    "h200-firecracker/topo-m.txt": Sample("topo", H200, {"gpu.count": PASS, "topo.pairs": NOT_APPLICABLE}),
    # --- nvlink -s
    "nvlink_s_h100_18links.txt": Sample(
        "nvlink", H8, {"nvlink.links": PASS, "nvlink.speed": PASS, "nvlink.gpus": UNKNOWN}
    ),
    "nvlink_s_h100_gpu0_18links_uuid.txt": Sample(
        "nvlink", H8, {"nvlink.links": PASS, "nvlink.speed": PASS, "nvlink.gpus": UNKNOWN}
    ),
    "derived_nvlink_s_h100_two_inactive.txt": Sample("nvlink", H8, {"nvlink.links": FAIL, "nvlink.gpus": UNKNOWN}),
    "nvlink_s_8xa100_gpud.txt": Sample("nvlink", H8, {"nvlink.links": FAIL, "gpu.name": FAIL}),
    "nvlink_s_a100_good_aznhc.txt": Sample("nvlink", H8, {"nvlink.links": FAIL, "gpu.name": FAIL}),
    "nvlink_s_a100_all_inactive_aznhc.txt": Sample("nvlink", H8, {"nvlink.links": FAIL}),
    "nvlink_s_l40s_no_nvlink.txt": Sample("nvlink", H8, {"nvlink.links": FAIL, "gpu.name": FAIL}),
    "nvlink_s_unsupported_and_inactive_one_line.txt": Sample("nvlink", H8, {"nvlink.links": FAIL}),
    "nvlink_s_a10_gpud.txt": Sample(None, H8, NOTHING),
    "h200-firecracker/nvlink-status.txt": Sample(None, H200, NOTHING),
    "h200-firecracker/nvlink-status-all.txt": Sample(None, H200, NOTHING),
    # --- nvidia-smi
    "nvidia_smi_table_550_gpud.txt": Sample(
        "smi-table",
        H8,
        dict.fromkeys(("gpu.count", "gpu.name", "gpu.memory", "gpu.mig", "gpu.persistence", "gpu.ecc_errors"), PASS),
    ),
    "nvidia_smi_table_gb10_580.txt": Sample(
        "smi-table", SPARK, {"gpu.count": PASS, "gpu.name": PASS, "gpu.memory": NOT_APPLICABLE, "gpu.persistence": PASS}
    ),
    "nvidia_smi_table_h100_590.txt": Sample("smi-table", H8, {**ONE_H100, "gpu.mig": PASS}),
    "nvidia_smi_table_h100_mig_590.txt": Sample("smi-table", H8, {"gpu.mig": FAIL, "gpu.count": FAIL}),
    "nvidia_smi_device_handle_unknown_error_610.txt": Sample("smi-table", H8, {"gpu.answer": FAIL}),
    "h200-firecracker/nvidia-smi.txt": Sample(
        "smi-table", H200, dict.fromkeys(("gpu.count", "gpu.name", "gpu.memory", "gpu.mig", "gpu.ecc_errors"), PASS)
    ),
    "nvidia_smi_L_h100_mig.txt": Sample("smi-list", H8, {"gpu.mig": FAIL, "gpu.count": FAIL}),
    "nvidia_smi_q_h100_590.txt": Sample("smi-q", H8, {"gpu.count": FAIL}),
    "h200-firecracker/q.txt": Sample(
        "smi-q",
        H200,
        dict.fromkeys(
            ("gpu.count", "gpu.name", "gpu.memory", "gpu.mig", "gpu.ecc", "gpu.ecc_errors", "gpu.remapped_rows"), PASS
        ),
    ),
    "h200-firecracker/qx.txt": Sample(
        "smi-xml",
        H200,
        dict.fromkeys(
            ("gpu.count", "gpu.name", "gpu.memory", "gpu.mig", "gpu.ecc", "gpu.ecc_errors", "gpu.remapped_rows"), PASS
        ),
    ),
    "nvidia_smi_qx_a100_sxm4_v12.xml.txt": Sample("smi-xml", H4, {"gpu.name": FAIL, "gpu.mig": FAIL}),
    "nvidia_smi_qx_a100_mig.xml.txt": Sample("smi-xml", H8, {"gpu.name": FAIL, "gpu.mig": FAIL, "gpu.count": FAIL}),
    "nvidia_smi_qx_a10g.xml.txt": Sample("smi-xml", H200, {"gpu.name": FAIL, "gpu.memory": FAIL, "gpu.pcie": FAIL}),
    "query_gpu_csv_h100_idle.txt": Sample("query-gpu", H8, {"gpu.count": FAIL}),
    "query_gpu_csv_gb10_na_memory.txt": Sample("query-gpu", SPARK, {"gpu.memory": NOT_APPLICABLE}),
    "h200-firecracker/query-basic.txt": Sample("query-gpu", H200, {"gpu.count": PASS, "gpu.name": PASS}),
    "h200-firecracker/query-nounits.txt": Sample("query-gpu", H200, {"gpu.count": PASS, "gpu.name": PASS}),
    "h200-firecracker/query-wide.txt": Sample("query-gpu", H200, {"gpu.count": PASS, "gpu.name": PASS}),
    "h200-firecracker/remapped.txt": Sample("query-gpu", H200, {"gpu.remapped_rows": PASS}),
    "nvidia_smi_version_590.txt": Sample("smi-version", H8, {"driver.match": PASS}),
    "proc_driver_nvidia_version_open_590.txt": Sample("proc-version", H8, {"driver.flavour": PASS}),
    "h200-firecracker/procversion.txt": Sample("proc-version", H200, {"driver.flavour": PASS}),
    # --- fabric manager
    "systemctl_status_fabricmanager_running_sxid.txt": Sample("fabricmanager", H8, {"fabric_manager.service": PASS}),
    "fabricmanager_driver_version_mismatch.txt": Sample("fabricmanager", H8, {"fabric_manager.version": FAIL}),
    # --- kernel log
    "dmesg_xid_sxid_mlx5_lines_imbue.txt": Sample("kernel-log", H8, {"kernel.xid": FAIL, "kernel.pcie": FAIL}),
    "dmesg_xid63_row_remap_stas00.txt": Sample("kernel-log", H8, {"kernel.xid": FAIL}),
    "dmesg_xid119_gsp_timeout_gpud.txt": Sample("kernel-log", H8, {"kernel.xid": FAIL}),
    "dmesg_sxid_22013_and_link_flap.txt": Sample("kernel-log", H8, {"kernel.flaps": FAIL}),
    "syslog_ib_link_flap_aznhc.txt": Sample("kernel-log", H8, {"kernel.flaps": FAIL}),
    "h200-firecracker/dmesg.txt": Sample("kernel-log", H200, {"kernel.xid": PASS}),
    # --- ports
    "ibstat_h100_roce_all_active_gpud.txt": Sample("ibstat", H8, {"port.state": PASS}),
    "ibstat_h100_roce_some_down_gpud.txt": Sample("ibstat", H8, {"port.state": FAIL}),
    "ibdev2netdev_dgx_spark_one_cable.txt": Sample("ibdev2netdev", SPARK, {"port.state": PASS}),
    "ibdev2netdev_up_down_mlx5.txt": Sample("ibdev2netdev", H8, {"port.state": FAIL}),
    "rdma_link_gb10_all_active.txt": Sample("rdma-link", SPARK, {"port.state": PASS}),
    "rdma_link_gb10_two_active.txt": Sample("rdma-link", SPARK, {"port.state": PASS}),
    "ibstatus_a100_gpud.txt": Sample("ibstat", H8, {}),
    "ethtool_speed_dgx_spark_100g_then_200g.txt": Sample("ethtool", SPARK, {}),
    "sysfs_ib_rate_and_lspci_gb10.txt": Sample("ethtool", SPARK, {"port.speed": PASS}),
    # --- serving
    "ray_status_2nodes_16gpu_old_usage.txt": Sample("ray-status", H8, {"ray.nodes": PASS, "ray.gpus": PASS}),
    "ray_status_3nodes_2gpu.txt": Sample(
        # A head without GPUs, or a worker that lost its own.
        "ray-status",
        SPARK,
        {"ray.nodes": PASS, "ray.gpus": UNKNOWN},
    ),
    "vllm_metrics_page_datadog.txt": Sample("vllm-metrics", H8, {"vllm.queue": PASS, "vllm.kv_cache": PASS}),
    # --- of no kind that can be evaluated
    "ib_write_bw_loopback_superbench.txt": Sample(None, H8, NOTHING),
    "nccl_tests_all_reduce_superbench.txt": Sample(None, H8, NOTHING),
    "nvbandwidth_superbench.txt": Sample(None, H8, NOTHING),
    "dcgm_exporter_metrics_datadog.txt": Sample(None, H8, NOTHING),
    "ip_br_addr_gb10.txt": Sample(None, SPARK, NOTHING),
    "h200-firecracker/help-query.txt": Sample(None, H200, NOTHING),
    "h200-firecracker/nvml.txt": Sample(None, H200, NOTHING),
    "h200-firecracker/gpuinfo.txt": Sample("proc-version", H200, {"gpu.count": PASS, "gpu.name": PASS}),
    "h200-firecracker/fp8.txt": Sample(None, H200, NOTHING),
    "h200-firecracker/torch.txt": Sample(None, H200, NOTHING),
    "h200-firecracker/topo-p2p.txt": Sample(None, H200, NOTHING),
}


def evaluated(text: str, name: str, kind: str | None, hardware: str) -> dict[str, set[str]]:
    entry = yaml.safe_load((ROOT / "catalog" / "hardware" / f"{hardware}.yml").read_text())
    document = diagnose([Capture(name, "", text, kind)], expected_of(hardware, entry))
    told: dict[str, set[str]] = {}
    for check in document["checks"]:
        told.setdefault(check["id"], set()).add(check["verdict"])
    return told


def deviations(name: str, sample: Sample) -> list[str]:
    """What comes of a file that should not, with its kind told and with its kind guessed from what it says."""
    text = (SAMPLES / name).read_text(encoding="utf-8", errors="replace")
    found = []
    guessed = sorted({part.kind for part in parts(text, name)})
    if sample.kind is not None and guessed != [sample.kind]:
        found.append(f"{name}: its kind is guessed to be {' or '.join(guessed)}, not {sample.kind}")
    for kind in dict.fromkeys((sample.kind, None)):
        told = evaluated(text, name, kind, sample.hardware)
        broken = [check for check in told if check.endswith(".check")]
        if broken:
            found.append(f"{name}: {', '.join(broken)} broke")
        if isinstance(sample.verdicts, str):
            passing = sorted(check for check, verdicts in told.items() if PASS in verdicts)
            found += [f"{name}: {check} passes" for check in passing]
            continue
        for check, verdict in sample.verdicts.items():
            if told.get(check) != {verdict}:
                found.append(f"{name} ({kind or 'guessed'}): {check} is {told.get(check)}, not {verdict}")
    return found


def test_every_capture_is_read_as_it_should_be() -> None:
    names = sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.txt")) if SAMPLES.is_dir() else []
    strange = [f"{name}: has no expected result here" for name in names if name not in EXPECTED]
    wrong = [line for name in names if name in EXPECTED for line in deviations(name, EXPECTED[name])]
    assert strange + wrong == []
