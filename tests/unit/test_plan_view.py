# SPDX-License-Identifier: Apache-2.0
"""What a person reads of a plan for hardware that the site describes itself, as far as it knows it."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from firstlight.cli import main
from firstlight.inventory import plan_inventory as _  # noqa: F401 - prepares the way collections are imported
from firstlight.plan_view import show
from firstlight.plan_view.changes import changes, rows
from firstlight.plan_view.parts import arguments, differences

ROOT = Path(__file__).parents[2]
H100X4 = str(ROOT / "inventory" / "h100x4")


def site(directory: Path, **change: Any) -> str:
    """Extra variables for a catalog with the example's hardware, these fields changed, or left out where None."""
    entry = yaml.safe_load((ROOT / "catalog/hardware/h100-sxm-4-nvswitch.yml").read_text(encoding="utf-8"))
    entry = {key: value for key, value in {**entry, **change}.items() if value is not None or key not in change}
    (directory / "hardware").mkdir()
    (directory / "hardware" / "h100-sxm-4-nvswitch.yml").write_text(yaml.safe_dump(entry))
    return json.dumps({"firstlight_catalog": [str(directory)]})


def test_a_site_that_knows_no_speeds_reads_why_none_is_expected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    extra = site(tmp_path, memory_bandwidth_gb_s=None, tflops=None)
    assert main(["plan", "-i", H100X4, "-e", extra]) == 0
    shown = capsys.readouterr().out
    assert "speed not known, because hardware h100-sxm-4-nvswitch lacks memory_bandwidth_gb_s and tflops" in shown
    assert "Cache for" in shown


BENCH = {"workloads": ["chat", "conversations"], "gate": ["chat"], "after_bring_up": True}


def test_what_is_measured_has_one_line_with_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-i", H100X4, "-e", json.dumps({"firstlight_bench": BENCH})]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("Measured after bring-up, expected tokens/s")
    chat, conversations = (line.split(maxsplit=1) for line in lines[at + 1 : at + 3])
    assert chat[0] == "chat"
    assert chat[1].startswith("1 stream ")
    assert "; 16 streams " in chat[1]
    assert chat[1].endswith("; gates")
    assert conversations == [
        "conversations",
        "not known, because its prompts have no fixed length, which the estimate needs",
    ]


def test_what_is_measured_is_in_the_plan_only_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for extra, asked in (({}, False), ({"firstlight_bench": BENCH}, True), ({"firstlight_bench_now": True}, True)):
        assert main(["plan", "-i", H100X4, "-e", json.dumps(extra), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert ("bench" in document) is asked
        if asked:
            assert document["bench"]["after_bring_up"] is True
            point = document["bench"]["workloads"][0]["points"][0]
            assert point["streams"] == 1
            low, high = point["expected"]["output_tokens_per_s"]
            assert 0 < low < high


def test_a_file_of_two_roles_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    on_ray = json.dumps({"firstlight_serving": {"profile": "vllm-ray", "max_model_len": 8192}})
    spark4 = str(ROOT / "inventory" / "spark4")
    assert main(["plan", "-i", spark4, "-e", on_ray, "--host", "spark-beta"]) == 0
    listed = [
        line for line in capsys.readouterr().out.splitlines() if line.split()[-1:] == ["/etc/firstlight/cluster.token"]
    ]
    assert len(listed) == 1


def test_which_files_of_the_weights_are_brought_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-i", H100X4, "--host", "h100"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "(the first available of mistral, safetensors, pytorch, pt)" in shown


def test_a_memory_that_is_not_known_is_refused_without_a_bar(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["plan", "-i", H100X4, "-e", site(tmp_path, unified=True, os_visible_mib=None)]) == 2
    shown = capsys.readouterr().out
    assert "[fit.memory-unknown]" in shown
    assert "Memory of each GPU" not in shown


def test_figures_that_mean_nothing_are_refused_with_their_range(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    extra = site(tmp_path, tflops={"bf16": 0, "fp8": 0}, memory_bandwidth_gb_s=-5, utilisation_ceiling=5.0)
    assert main(["plan", "-i", H100X4, "-e", extra]) != 0
    captured = capsys.readouterr()
    said = captured.out + captured.err
    for words in ("tflops.bf16: 0", "memory_bandwidth_gb_s: -5", "expected a number above 0 and at most 1"):
        assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("rails", "words"),
    [
        ([{"port": "enp1s0f1np1"}, {"port": "enP2p1s0f1np1"}], "enp1s0f1np1 (cage 1) 192.168.100.10/24, MTU 9000"),
        ([{"port": "cage 0"}, {"port": "cage 0"}], "half 1 of cage 0, found on the host, 192.168.101.10/24, MTU 9000"),
        ([{}, {}], "half 0 of the one cage that has a cable, found on the host, 192.168.100.10/24, MTU 9000"),
        ([{"port": "cage 1"}], "1 of the 2 rails that the hardware has on one cable is used"),
    ],
)
def test_rails_are_shown_where_they_are_or_what_finds_them(
    capsys: pytest.CaptureFixture[str], rails: list[dict[str, Any]], words: str
) -> None:
    listed = [{**rail, "subnet": f"192.168.{100 + number}.0/24"} for number, rail in enumerate(rails)]
    extra = json.dumps({"firstlight_fabric": {"rails": listed}})
    option = [] if "the 2 rails" in words else ["--host", "spark-alpha"]
    assert main(["plan", "-i", str(ROOT / "inventory" / "spark4"), "-e", extra, *option]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "tests" / "golden" / "plan" / f"{name}.json").read_text())
    return found


def rack_of(count: int) -> dict[str, Any]:
    """The plan of four Sparks with so many hosts, sixteen in a rack."""
    plan = document("spark4")
    worker = plan["hosts"]["spark-delta"]
    for number in range(4, count):
        name = f"spark-{number}"
        rails = [
            {**rail, "address": f"10.{rail['half']}.{number // 256}.{number % 256}/16"} for rail in worker["fabric"]
        ]
        reach = {**worker["reach"], "address": f"{name}.local"}
        argv = [word.replace("--node-rank=3", f"--node-rank={number}") for word in worker["launch"][0]["argv"]]
        launch = [{**worker["launch"][0], "argv": argv}]
        own = {"name": name, "rank": number, "fabric": rails, "reach": reach, "launch": launch}
        plan["hosts"][name] = {**worker, **own}
    for number, host in enumerate(plan["hosts"].values()):
        host["rack"] = f"r{number // 16:02}"
    plan["cluster"] |= {"hosts": list(plan["hosts"]), "size": count}
    return plan


@pytest.mark.parametrize("count", [13, 200, 1000])
def test_many_hosts_are_a_screen_too(capsys: pytest.CaptureFixture[str], count: int) -> None:
    plan = rack_of(count)
    started = time.process_time()
    show(plan)
    assert time.process_time() - started < 1.0  # about 0.2 s for 1000
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 120
    text = "\n".join(lines)
    assert f"rack r00: {min(count, 16)} hosts" in text
    assert "head, 12 workers" in text or "head, 15 workers" in text
    assert "--node-rank=1..." in text
    assert ("more racks" in text) == (count > 16 * 8)


@pytest.mark.parametrize("columns", ["40", "60", "80", "200", None])
def test_no_line_is_wider_than_the_reader_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    for name in ("spark4", "h100x8"):
        show(document(name))
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= int(columns or 120)
        assert "\x1b" not in shown


def test_errors_come_first_and_what_is_missing_last(capsys: pytest.CaptureFixture[str]) -> None:
    plan = document("spark4")
    plan["missing_inputs"] = [{"id": "c.d", "found": "what is missing", "rule": "the rule", "remedy": "set it"}]
    show(plan)
    assert capsys.readouterr().out.splitlines()[-5:-2] == [
        "Required before apply:",
        "1. what is missing [c.d]",
        "   fix: set it",
    ]
    plan["errors"] = [{"id": "a.b", "found": "what was found", "rule": "the rule", "remedy": "the way out"}]
    show(plan)
    shown = capsys.readouterr().out
    assert shown.startswith(
        "Errors: the plan is refused, no host was touched:\n1. what was found [a.b]\n   rule: the rule\n"
    )
    assert "Hosts" not in shown


def test_how_a_host_is_reached_is_in_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """By the older names of Ansible's variables, too."""
    variables = yaml.safe_load((ROOT / "inventory/h100x4/group_vars/all.yml").read_text())
    variables["ansible_ssh_user"] = variables.pop("ansible_user") + "-ops"
    head = {"hosts": {"node": {"ansible_ssh_host": "10.1.2.3", "ansible_port": 2222}}}
    cluster = {"children": {"head": head, "workers": {"hosts": {}}}, "vars": variables}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"cluster": cluster}))
    assert main(["plan", "-i", str(tmp_path)]) == 0
    assert "  node  10.1.2.3  ubuntu-ops  2222  head  none\n" in capsys.readouterr().out
    assert main(["plan", "-i", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["hosts"]["node"]["reach"]
    assert found == {"address": "10.1.2.3", "user": "ubuntu-ops", "port": 2222}


def test_a_price_is_shown_as_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-i", H100X4, "-e", "firstlight_price_per_gpu_hour=2.5"]) == 0
    shown = capsys.readouterr().out
    assert "cost at 2.5 per GPU and hour" in shown
    assert "cost/M tokens" in shown


def test_targets_are_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    targets = {"ttft_p95_ms": 800, "prefix_hit_rate": 0.3}
    arguments = ["plan", "-i", H100X4, "-e", json.dumps({"firstlight_targets": targets})]
    assert main(arguments) == 0
    assert "ttft_p95_ms 800, prefix_hit_rate 0.3\n" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["served"]["targets"] == targets


@pytest.mark.parametrize(("source", "words"), [("", "and give an access token"), ("/srv/weights", "")])
def test_a_gated_model_says_what_it_needs_before_anything_is_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str, words: str
) -> None:
    entry = yaml.safe_load((ROOT / "catalog/models/llama-3.3-70b.yml").read_text(encoding="utf-8"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "llama-3.3-70b.yml").write_text(yaml.safe_dump({**entry, "gated": True}))
    extra = {"firstlight_catalog": [str(tmp_path)]} | ({"firstlight_weights_source": source} if source else {})
    arguments = [
        "plan",
        "-i",
        str(ROOT / "inventory" / "h100x8"),
        "-e",
        "plan_model=llama-3.3-70b",
        "-e",
        json.dumps(extra),
    ]
    assert main(arguments) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "licence Llama-3.3-Community, gated" in shown
    assert ("access token" in shown) == bool(words)
    assert main([*arguments, "--json"]) == 0
    served = json.loads(capsys.readouterr().out)["served"]
    assert (served["licence"], served["gated"], served["needs_token"]) == ("Llama-3.3-Community", True, not source)


HOST: dict[str, Any] = {"rank": 0, "is_head": False, "fabric": [], "launch": [], "desired": {}}
words = st.text("abc-= /", min_size=1, max_size=8)


@given(st.lists(words, min_size=1, max_size=12))
def test_a_command_in_lines_is_the_same_command(argv: list[str]) -> None:
    assert shlex.split(" ".join(arguments(argv))) == argv


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)), min_size=1, max_size=5))
def test_hosts_differ_where_they_do_and_a_plan_changes_where_it_does(wanted: list[dict[str, int]]) -> None:
    hosts = {
        f"h{number}": {**HOST, "name": f"h{number}", "desired": {"role": {"sysctl": one}}}
        for number, one in enumerate(wanted)
    }
    assert bool(differences(hosts)) == any(one != wanted[0] for one in wanted)
    old, new = ({"hosts": {"h": {**HOST, "desired": {"role": {"sysctl": one}}}}} for one in (wanted[0], wanted[-1]))
    assert bool(rows(changes(old, new))) == (wanted[0] != wanted[-1])


def test_hosts_that_come_and_go_are_changes() -> None:
    old, new = {"hosts": {"a": HOST, "b": HOST}}, {"hosts": {"b": HOST, "c": HOST}}
    assert rows(changes(old, new)) == [("Hosts added", ["c"]), ("Hosts removed", ["a"])]
