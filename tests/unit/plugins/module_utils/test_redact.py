# SPDX-License-Identifier: Apache-2.0
"""What names a machine, and every secret, is gone from a text; what it says about the GPUs is not."""

from __future__ import annotations

import string
import time
from xml.etree import ElementTree

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ibstat import parse_ibstat
from ansible_collections.firstlight.cluster.plugins.module_utils.redact import Redaction, redact_raw, serials_in
from ansible_collections.firstlight.cluster.plugins.module_utils.redact_secrets import REMOVED
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

KEY = "a key that is thrown away"
SERIAL = "1654922007341"
UUID = "8b1c7a9d-44e0-92f3-0b1d-5f6c2e7a9018"
MAC = "94:6d:ae:cd:e7:2c"
GUID = "946dae0300cde72c"


def redacted(text: str, names: dict[str, str] | None = None, *, anonymous: bool = False) -> str:
    return Redaction(KEY, anonymous=anonymous, names=names)(text)


@pytest.mark.parametrize(
    "text",
    [
        f"    Serial Number                                      : {SERIAL}",
        f"\t\t<serial>{SERIAL}</serial>",
        f"<chassis_serial_number>{SERIAL}</chassis_serial_number>",
        f"NVRM: GPU Board Serial Number: {SERIAL}",
        f"usb 1-1: SerialNumber: {SERIAL}",
        f"\tVendor SN                                 : {SERIAL}",
        f'{{"serial": "{SERIAL}", "index": 0}}',
        f"\x1b[1mSerial Number\x1b[0m : \x1b[32m{SERIAL}\x1b[0m",
        f"index, serial, name\n0, {SERIAL}, NVIDIA H200",
        f"0, {SERIAL}, NVIDIA H200",
        f"0,{SERIAL}",
        f"serial_number,{SERIAL}",
        f"Serial Number:\n    {SERIAL}\n",
        f"| Serial | {SERIAL} |",
        f"nvme nvme0: serial {SERIAL}",
        f"ata1.00: S/N {SERIAL}",
    ],
)
def test_a_serial_number_is_replaced_wherever_a_tool_prints_it(text: str) -> None:
    assert SERIAL not in redacted(text)
    assert "serial-" in redacted(text)


@pytest.mark.parametrize("word", ["N/A", "[N/A]", "Unknown Error", "0", "0000000000000", "Insufficient Permissions"])
def test_a_word_in_place_of_a_serial_number_stays(word: str) -> None:
    line = f"    Serial Number                         : {word}"
    assert redacted(line) == line


def test_a_serial_number_that_one_text_labels_is_gone_from_the_others() -> None:
    raw = {
        "smi-q": {"text": "Serial Number : MT2231X04711", "command": "nvidia-smi -q", "rc": 0},
        "kernel-log": {"text": "mlx5_core: board MT2231X04711 overheated", "command": "dmesg", "rc": 0},
    }
    done = redact_raw(raw, {"key": KEY})
    assert "MT2231X04711" not in str(done)
    name = done["smi-q"]["text"].rpartition(" ")[2]
    assert done["kernel-log"]["text"] == f"mlx5_core: board {name} overheated"
    assert done["smi-q"]["rc"] == 0


def test_what_is_no_serial_number_is_not_looked_for_elsewhere() -> None:
    text = "usb usb1: SerialNumber: 0000:00:14.0\nusb 1-1: Mfr=3, Product=2, SerialNumber=1\nSerial: 8250/16550 driver"
    assert serials_in(text) == set()


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"GPU 0: NVIDIA H200 (UUID: GPU-{UUID})", UUID),
        (f"  MIG 1g.10gb Device 0: (UUID: MIG-GPU-{UUID}/7/0)", UUID),
        ("GPU 0: NVIDIA H200 (UUID: GPU-8b1c7a9d-44e0", "8b1c7a9d"),
        (f"root=UUID={UUID} ro", UUID),
        ("systemd: machine id 0f3c2a9be1d84c57a6f0b1c2d3e4f506", "0f3c2a9be1d84c57a6f0b1c2d3e4f506"),
        (f"\tNode GUID: 0x{GUID}", GUID),
        ("node_guid 946d:ae03:00cd:e72c", "946d:ae03"),
        ("    GPU PDI                    : 0x6b03be43f75dc4b2", "6b03be43f75dc4b2"),
        ("<gpu_fabric_guid>0x0000be43f75dc4b2</gpu_fabric_guid>", "be43f75dc4b2"),
        (f"Permanent address: {MAC}", MAC),
        (f"link/infiniband 80:00:00:28:fe:80:00:00:00:00:00:00:{MAC}:01:02", MAC),
        (f"[UFW BLOCK] MAC={MAC}:00:11:22:33:44:55:08:00 SRC=8.8.4.4", MAC),
        ("enx946daecde72c: link up", "946daecde72c"),
        ("inet6 fe80::966d:aeff:fecd:e72c/64", "aeff:fecd"),
        ("default gid: fe80:0000:0000:0000:946d:ae03:00cd:e72c", "946d:ae03"),
        ("inet6 2a02:810d:1:2:966d:aeff:fecd:e72c/64", "2a02:810d"),
        ("GID:fe80::966d:aeff:fecd:e72c: is a duplicate", "aeff:fecd"),
        ("node:2a02:810d:1:2::5 1.0/1.0", "2a02:810d"),
        ("sys_image_guid:946d:ae03:00cd:e72c: changed", "946d:ae03"),
        (f"HWaddr:{MAC}: link", MAC),
        ("inet6 fd12:3456::966d:aeff:fecd:e72c/64", "aeff:fecd"),
        ("nfs: server 8.8.4.4 not responding", "8.8.4.4"),
        (f"\x1b[32m{UUID}\x1b[0m", UUID),
        (f"\x1b[32m{MAC}\x1b[0m", MAC),
        (f"\x1b[1;32m0x{GUID}", GUID),
        ("\x1b[32m8.8.4.4\x1b[0m", "8.8.4.4"),
        ("hwaddr=946daecde72c", "946daecde72c"),
        ("neighbour 946d.aecd.e72c", "946d.aecd"),
        ("neighbour 946D-AECD-E72C", "AECD-E72C"),
        ("usb 1-1: SerialNumber: ABCDEFGH", "ABCDEFGH"),
    ],
)
def test_what_numbers_one_device_is_replaced(text: str, secret: str) -> None:
    assert secret not in redacted(text)
    assert secret.upper() not in redacted(text.upper())


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("VLLM_API_KEY=s3cr3t-of-the-server", "s3cr3t"),
        ('api_key: "s3cr3t of the server", port: 8000', "s3cr3t"),
        ("python3 -m vllm --api-key s3cr3t --port 8000", "s3cr3t"),
        ("vllm serve --hf-token=s3cr3t", "s3cr3t"),
        ("GET /metrics Authorization: Bearer s3cr3tofthisserver00", "s3cr3t"),
        ("curl -H 'bearer s3cr3tofthisserver00'", "s3cr3t"),
        ("proxy http://alice:s3cr3t@proxy.example:3128/", "s3cr3t"),
        ("https://hub.example/x?expires=5&X-Signature=s3cr3t&y=1", "s3cr3t"),
        ("<db_password>s3cr3t</db_password>", "s3cr3t"),
        ("loading hf_AbCdEfGhIjKlMnOpQrStUv failed", "AbCdEfGh"),
        ("export KEY2=nvapi-AbCdEfGhIjKlMnOpQrStUv", "AbCdEfGh"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl", "eyJzdWI"),
        ("proxy http://alice:p@s3cr3t@proxy.example:3128/", "s3cr3t"),
        ("--wandb-key s3cr3t0123", "s3cr3t"),
        ("--api-key -s3cr3t-that-begins-so", "s3cr3t"),
        ("-x -api-key s3cr3t", "s3cr3t"),
        ("AZURE_OPENAI_KEY=s3cr3t", "s3cr3t"),
        ("MYSQL_PASS=s3cr3t", "s3cr3t"),
        ("mysql -u root -ps3cr3t", "s3cr3t"),
        ("sshpass -p s3cr3t ssh x", "s3cr3t"),
        ("curl -u alice:s3cr3t http://x", "s3cr3t"),
        ("curl --user=alice:s3cr3t http://x", "s3cr3t"),
        ("Cookie: session=s3cr3t", "s3cr3t"),
        ('"token": ["s3cr3t"]', "s3cr3t"),
        ('{\\"api_key\\": \\"s3cr3t\\"}', "s3cr3t"),
        ('"auth": "s3cr3tOnlyEncoded=="', "s3cr3t"),
        ("<name>x --token=&quot;s3cr3t and more&quot;</name>", "s3cr3t and"),
        ("token \x1b[0m=\x1b[32ms3cr3t\x1b[0m", "s3cr3t"),
        ("dckr_pat_AbCdEfGhIjKlMnOpQr", "AbCdEfGh"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----", "b3Blbn"),
        ("-----BEGIN RSA PRIVATE KEY-----\nb3BlbnNzaC1rZXk and then it is cut off", "b3Blbn"),
    ],
)
def test_a_secret_is_removed(text: str, secret: str) -> None:
    assert secret not in redacted(text)
    assert REMOVED in redacted(text)


@pytest.mark.parametrize(
    "words", ["--api-key s3cr3t", "--api-key=s3cr3t", "--token 's3cr3t", "PASS=s3cr3t", "-u a:s3cr3t"]
)
def test_a_secret_in_the_name_of_a_process_leaves_the_document_whole(words: str) -> None:
    document = f"<log><process_name>vllm serve {words}</process_name><pid>1</pid></log>"
    done = redacted(document)
    assert "s3cr3t" not in done
    assert ElementTree.fromstring(done.replace(REMOVED, "x")).findtext("pid") == "1"


@pytest.mark.parametrize(
    "text",
    [
        "GPU0\t X \tNV18\tNV18\t0-55,112-167\t0\t\tN/A",
        "\t Link 0: 26.562 GB/s",
        "0, NVIDIA H200, 00000000:0F:00.0, 580.159.04, 96.00.61.00.01, 143771 MiB, 0x0000000000000004",
        "NVRM: Xid (PCI:0000:0f:00): 64, Row Remapper Error: (0x00000002eebc4100) - All reserved rows",
        "BUG: unable to handle page fault for address: 0xffff8881deadbeef",
        "Nov 14 06:12:05 kernel: NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04",
        'vllm:generation_tokens_total{model_name="facebook/opt-125m"} 7.0',
        'vllm:time_to_first_token_seconds_bucket{le="0.001"} 0.0',
        'vllm:cache_config_info{block_size="16",max_num_batched_tokens="8192"} 1.0',
        "Firmware version: 28.43.1014",
        "Port GUID: 0x0000000000000000",
        "mlx5_0 port 1 ==> enp1s0f0np0 (Up)",
        "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev enp1s0f0np0",
        "inet 192.168.100.10/24 brd ff:ff:ff:ff:ff:ff",
        "inet6 ::1/128 scope host",
        " 1.0/4.0 GPU\n 0B/27.94GiB object_store_memory",
        "fabric manager NVIDIA GPU driver interface version 580.127.05 doesn't match with driver version 580.120",
    ],
)
def test_what_tells_of_the_hardware_stays(text: str) -> None:
    assert redacted(text) == text


def test_one_value_has_one_pseudonym_however_it_is_written() -> None:
    shown = [
        redacted(text).lower().replace(":", "")[-16:]
        for text in (f"Node GUID: 0x{GUID}", f"x 0x{GUID.upper()}", "node_guid 946d:ae03:00cd:e72c", f"guid: {GUID}")
    ]
    assert len(set(shown)) == 1
    assert redacted(f"GPU-{UUID}")[4:] == redacted(UUID)
    assert Redaction("another collection")(UUID) != redacted(UUID)


def test_a_pseudonym_is_read_like_the_real_thing() -> None:
    text = f"CA 'mlx5_0'\n\tCA type: MT4129\n\tNode GUID: 0x{GUID}\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"
    real, hidden = parse_ibstat(text), parse_ibstat(redacted(text))
    assert len(hidden) == len(real) > 0
    assert str(hidden).count("400") == str(real).count("400")


def test_names_and_addresses_of_hosts_and_people_go_only_when_nobody_is_to_be_known() -> None:
    text = "spark0 kernel: eth0 10.1.2.3 of spark0.lab.example; GPU0 spark01 /home/alice/x 127.0.0.1 fd00::5"
    names = {"spark0": "host1", "spark0.lab.example": "host1", "gpu0": "host2"}
    assert redacted(text, names) == text
    hidden = redacted(text, names, anonymous=True)
    assert hidden.startswith("host1 kernel: eth0 24")
    assert "of host1; GPU0 spark01 /home/user-" in hidden
    assert not any(word in hidden for word in ("10.1.2.3", "spark0 ", "alice", "fd00::5", "lab.example"))
    assert "127.0.0.1" in hidden


def test_nobody_is_known_by_a_domain_a_login_or_an_address_within_another() -> None:
    raw = {
        "kernel-log": {"text": "node8 node8.corp.example node7.corp.example alice@node8 ::ffff:c0a8:640a \x1b[32mnode8"}
    }
    options = {"key": KEY, "anonymous": True, "names": {"node8.corp.example": "host2", "10.0.0.7": "host3"}}
    hidden = redact_raw(raw, {**options, "label": "host1"}, "node7")["kernel-log"]["text"]
    assert hidden.startswith("host2 host2 host1 user-")
    assert hidden.endswith("@host2 ::ffff:" + hidden.split()[4][7:] + " \x1b[32mhost2")
    assert not any(word in hidden for word in ("corp", "alice", "c0a8", "node"))


def test_the_machine_s_own_name_becomes_its_label() -> None:
    raw = {"kernel-log": {"text": "dgx-07 kernel: dgx-07.corp.example up", "command": "dmesg"}}
    options = {"key": KEY, "anonymous": True, "names": {"node7": "host3"}, "label": "host3"}
    assert redact_raw(raw, options, "dgx-07.corp.example")["kernel-log"]["text"] == "host3 kernel: host3 up"


FRAMES = (
    "Serial Number : {}",
    "<serial>{}</serial>",
    "Board Serial Number: {}",
    "SerialNumber={}",
    'serial="{}"',
    "index, serial\n0, {}",
)


@given(
    serial=st.text(string.ascii_uppercase + string.digits, min_size=6, max_size=20).filter(
        lambda word: sum(one.isdigit() for one in word) >= 4 and len(set(word)) > 2
    ),
    frame=st.sampled_from(FRAMES),
    noise=st.text(max_size=40),
    other=st.text(string.printable, max_size=60),
)
def test_no_serial_number_survives(serial: str, frame: str, noise: str, other: str) -> None:
    raw = {
        "smi-q": {"text": f"{noise}\n{frame.format(serial)}\n{noise}", "command": f"show {serial}"},
        "kernel-log": {"text": f"{other} {serial} {other}", "command": "dmesg"},
    }
    done = redact_raw(raw, {"key": KEY})
    assert serial not in done["smi-q"]["text"].replace(noise, "")
    assert serial not in done["smi-q"]["command"]
    assert serial not in done["kernel-log"]["text"]


@given(
    digits=st.text("0123456789abcdef", min_size=32, max_size=32).filter(lambda word: len(set(word[:12])) > 2),
    before=st.sampled_from(["", " ", "\t", "UUID: ", "GPU-", "MIG-", "(", "x=", "\x1b[1m ", "<uuid>"]),
    after=st.sampled_from(["", " ", "\n", ")", "</uuid>", ",", "/7/0", "."]),
    upper=st.booleans(),
)
def test_no_device_s_number_survives(digits: str, before: str, after: str, upper: bool) -> None:
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    mac = ":".join(digits[place : place + 2] for place in range(0, 12, 2))
    for value in (uuid, mac):
        shown = value.upper() if upper else value
        assert shown not in redacted(before + shown + after)


@examples(60)
@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    once = redacted(text, {"spark0": "host1"}, anonymous=True)
    assert once.count("\n") >= 0


@pytest.mark.slow  # texts of 200,000 characters
@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "serial:" + " " * 200_000,
        "-" * 200_000,
        "password " * 30_000,
        "00:" * 100_000,
        "1," * 100_000,
        "-----BEGIN PRIVATE KEY-----\n" * 5_000,
        "f" * 100_000 + "://" * 30_000,
        "1." * 100_000,
        "serial " * 30_000,
        "serial\n" * 30_000,
        "mysql " * 30_000,
        "--a-" * 50_000,
        "a@" * 100_000,
        "\x1b[0m" * 50_000,
        "token=&quot;" * 20_000,
        "host1.a" + ".a" * 100_000,
    ],
)
def test_no_text_takes_much_processor_time(text: str) -> None:
    began = time.process_time()
    redacted(text)
    assert time.process_time() - began < 5
