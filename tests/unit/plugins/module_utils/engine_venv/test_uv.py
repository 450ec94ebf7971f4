# SPDX-License-Identifier: Apache-2.0
"""What uv is told of pip's configuration, and what it says when it fails."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import LockError, parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.uv import (
    Source,
    complaint,
    is_tool,
    parse_tool,
    pip_complaint,
    pip_settings,
    uv_environment,
)

ROOT = Path(__file__).resolve().parents[5]
PIN = ROOT / "roles/engine_venv/files/uv.txt"
INDEX = "https://mirror.example/simple/"

# As uv 0.13.7 says it.
USING = "Using Python 3.11.2 environment at: env/b\n"
MISMATCH = """\
Using Python 3.11.2 environment at: env/b
Resolved 2 packages in 1.14s
error: Failed to download `vllm==0.31.0`
  cause: Hash mismatch for `vllm==0.31.0`

         Expected:
           sha256:000000007613a0c489edd510cca8a3ddf002acef125f6a52eb277e4670de62a3
           sha256:1111

         Computed:
           sha256:6cf653a87613a0c489edd510cca8a3ddf002acef125f6a52eb277e4670de62a3
"""
NO_VERSION = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of vllm==0.30.0 and you require vllm==0.30.0, we can conclude that your \
requirements are unsatisfiable.
"""
NO_PACKAGE = NO_VERSION.replace("there is no version of vllm==0.30.0", "vllm was not found in the package registry")
NOT_IN_DIRECTORY = NO_PACKAGE.replace("the package registry", "the provided package locations")
NOT_LET_IN = f"""{NO_PACKAGE}
hint: An index URL (https://mirror.example/simple/) could not be queried due to a lack of valid authentication \
credentials (401 Unauthorized)
"""
FORBIDDEN = f"""{NO_PACKAGE}
hint: An index (https://mirror.example/simple/) returned a 403 Forbidden error. Check that the index URL is correct \
and the credentials are valid.
"""
ELSEWHERE = """\
error: No solution found when resolving dependencies
  cause: Because words==1.0.0 has no wheels with a matching platform tag (e.g., `manylinux_2_36_x86_64`) and you \
require words==1.0.0, we can conclude that your requirements are unsatisfiable.

hint: Wheels are available for `words` (v1.0.0) on the following platform: `manylinux_2_17_riscv64`
"""
OTHER_PYTHON = """\
error: No solution found when resolving dependencies
  cause: Because words==1.0 has no wheels with a matching Python ABI tag (e.g., `cp311`) and you require words==1.0, \
we can conclude that your requirements are unsatisfiable.

hint: You require CPython 3.11 (`cp311`), but we only found wheels for `words` (v1.0) with the following Python ABI \
tag: `cp38`
"""
NEWER_PYTHON = """\
error: No solution found when resolving dependencies
  cause: Because the current Python version (3.11.2) does not satisfy Python>=3.13 and words==1.0 depends on \
Python>=3.13, we can conclude that words==1.0 cannot be used.
         And because you require words==1.0, we can conclude that your requirements are unsatisfiable.
"""
SOURCE_ONLY = """\
error: No solution found when resolving dependencies
  cause: Because words==1.0 has no usable wheels and you require words==1.0, we can conclude that your requirements \
are unsatisfiable.

hint: Wheels are required for `words` because building from source is disabled for all packages (i.e., with \
`--no-build`)
"""
REFUSED = """\
error: Request failed after 3 retries in 10.9s
  cause: Failed to fetch: https://mirror.example/simple/vllm/
  cause: error sending request for url (https://mirror.example/simple/vllm/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
NO_NAME = REFUSED.replace(
    "tcp connect error\n  cause: Connection refused (os error 111)",
    "dns error\n  cause: error resolving DNS\n  cause: failed to lookup address information: Name or service not known",
)
BROKEN = """\
error: Request failed after 1 retry in 1.6s
  cause: Failed to fetch: https://mirror.example/simple/vllm/
  cause: HTTP status server error (500 Internal Server Error) for url (https://mirror.example/simple/vllm/)
"""
SLOW = """\
error: Request failed after 1 retry in 7.3s
  cause: Failed to fetch: https://mirror.example/simple/vllm/
  cause: error sending request for url (https://mirror.example/simple/vllm/)
  cause: operation timed out
"""
STALLED = """\
Resolved 2 packages in 22ms
error: Failed to download `vllm==0.31.0`
  cause: Failed to extract archive: vllm-0.31.0-cp38-abi3-manylinux_2_17_x86_64.whl
  cause: I/O operation failed during extraction
  cause: Failed to download distribution due to network timeout. Try increasing UV_HTTP_TIMEOUT (current value: 3s).
"""
CUT = """\
Resolved 2 packages in 180ms
error: Failed to download `vllm==0.31.0`
  cause: Failed to write to the distribution cache
  cause: error decoding response body
  cause: request or response body error
  cause: error reading a body from connection
  cause: end of file before message length reached
"""
CERTIFICATE = """\
error: Failed to fetch: https://mirror.example/simple/vllm/
  cause: error sending request for url (https://mirror.example/simple/vllm/)
  cause: client error (Connect)
  cause: invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))
"""
FULL = """\
Resolved 1 package in 2ms
Downloading big (5.7MiB)
error: Failed to download `big==1.0`
  cause: Failed to extract archive: big-1.0-py3-none-any.whl
  cause: I/O operation failed during extraction
  cause: failed to write to file `/opt/venvs/.firstlight/e.wheels/.tmprc9PKT/big.txt`: No space left on device (os \
error 28)
"""
DAMAGED = """\
Resolved 1 package in 114ms
error: Failed to download `broken==1.0`
  cause: Failed to extract archive: broken-1.0-py3-none-any.whl
  cause: Bad uncompressed size (got 000005ba, expected 00000bb8) for file: b.py
"""
NO_DIRECTORY = """\
error: Failed to read `--find-links` directory: /nowhere
  cause: No such file or directory (os error 2)
"""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            MISMATCH,
            f"vllm==0.31.0 from {INDEX} has the sha256 6cf653a87613a0c489edd510cca8a3ddf002acef125f6a52eb277e467",
        ),
        (MISMATCH, "4670de62a3 or 1111): the file is not the one that was locked"),
        (NO_VERSION, f"vllm==0.30.0 is not offered by {INDEX}, expected a wheel of it: mirror it there"),
        (NO_PACKAGE, f"vllm==0.30.0 is not offered by {INDEX}, expected"),
        (NOT_IN_DIRECTORY, f"vllm==0.30.0 is not offered by {INDEX}, expected"),
        (NOT_LET_IN, "vllm==0.30.0 is not offered by https://mirror.example/simple/ (An index URL ("),
        (NOT_LET_IN, "lack of valid authentication credentials (401 Unauthorized)), expected"),
        (
            FORBIDDEN,
            "returned a 403 Forbidden error. Check that the index URL is correct and the credentials are valid),",
        ),
        (
            ELSEWHERE,
            f"words==1.0.0 has no wheel at {INDEX} that fits this host (Wheels are available for `words` (v1.0.0)",
        ),
        (ELSEWHERE, f": `manylinux_2_17_riscv64`), expected one for {platform.machine()} and the environment's Python"),
        (OTHER_PYTHON, "with the following Python ABI tag: `cp38`), expected one for"),
        (NEWER_PYTHON, f"words==1.0 has no wheel at {INDEX} that fits this host, expected one for"),
        (SOURCE_ONLY, f"words==1.0 has no wheel at {INDEX} that fits this host (Wheels are required for `words`"),
        (REFUSED, f"{INDEX} cannot be read (Request failed after 3 retries in 10.9s: Failed to fetch: {INDEX}vllm/: "),
        (REFUSED, "Connection refused (os error 111)), expected every wheel of the lock: check the address"),
        (NO_NAME, "Name or service not known), expected"),
        (BROKEN, "500 Internal Server Error"),
        (SLOW, "operation timed out), expected"),
        (STALLED, "due to network timeout"),
        (CUT, "end of file before message length reached), expected"),
        (CERTIFICATE, "invalid peer certificate"),
        (FULL, "No space left on device (os error 28)), expected room for what the wheels unpack to: make room"),
        (
            DAMAGED,
            "uv failed (Failed to download `broken==1.0`: Failed to extract archive: broken-1.0-py3-none-any.whl: B",
        ),
        (NO_DIRECTORY, "No such file or directory (os error 2)) with"),
        ("thread 'main' panicked", "uv failed (thread 'main' panicked) with"),
    ],
)
def test_what_uv_said(said: str, words: str) -> None:
    told = complaint(USING + said if said.startswith("error") else said, INDEX)
    assert words in told
    assert "\n" not in told
    assert "Using Python" not in told


def test_a_password_that_uv_or_pip_repeats_is_not_repeated() -> None:
    address = "https://me:s3c@r3t@mirror.example/simple/"
    for said in (REFUSED, NOT_LET_IN, BROKEN, "error: what is " + INDEX):
        told = complaint(said.replace(INDEX, address), "the index")
        assert "https://****@mirror.example/simple/" in told
        assert "s3c" not in told
        assert "r3t" not in told
    assert pip_complaint(f"ERROR: no uv at {address}") == "no uv at https://****@mirror.example/simple/"


def test_what_pip_said_of_uv() -> None:
    """As pip 23.0.1 says it."""
    missing = (
        "Looking in links: wheels\n"
        "ERROR: Could not find a version that satisfies the requirement uv==0.13.7 (from versions: none)\n"
        "ERROR: No matching distribution found for uv==0.13.7\n"
    )
    assert pip_complaint(missing) == "No matching distribution found for uv==0.13.7"
    retrying = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /simple/uv/\n"
    assert pip_complaint(retrying + missing).startswith(retrying.strip() + "; No matching")
    assert pip_complaint("killed") == "killed"
    assert pip_complaint("") == "it printed nothing"


# -- pip's configuration -----------------------------------------------------------------------------------------------

# As pip 23.0.1 and 26.0 list it.
LISTED = """\
:env:.default-timeout='180'
:env:.find-links='/nowhere'
global.cert='/etc/ssl/certs/site.pem'
global.extra-index-url='https://one.example/simple\\nhttps://two.example/simple'
global.find-links='/also/nowhere'
global.index-url='https://me:secret@mirror.example/simple/'
global.trusted-host='mirror.example'
install.trusted-host='mirror.example:8443 other.example'
freeze.index-url='https://elsewhere.example/'
nonsense
global.no-index=
"""


def test_the_environment_is_asked_last_and_other_commands_do_not_count() -> None:
    settings = pip_settings(LISTED)
    assert settings["find-links"] == "/nowhere"
    assert settings["trusted-host"] == "mirror.example:8443 other.example"
    assert settings["index-url"] == "https://me:secret@mirror.example/simple/"
    assert "no-index" not in settings


def test_uv_gets_pips_settings_in_its_environment_and_no_address_in_its_arguments(tmp_path: Path) -> None:
    settings = pip_settings(LISTED)
    arguments, environment = Source().for_uv(settings)
    assert arguments == []
    assert environment == {
        "UV_DEFAULT_INDEX": "https://me:secret@mirror.example/simple/",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INSECURE_HOST": "mirror.example:8443 other.example",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/etc/ssl/certs/site.pem",
    }
    links = f"{tmp_path} file://{tmp_path} https://links.example/ /nowhere file:///nowhere"
    assert uv_environment({"find-links": links})["UV_FIND_LINKS"].split(",") == links.split()[:3]
    through = uv_environment({"proxy": "http://proxy.example:3128", "retries": "0", "timeout": "soon"})
    assert through == {
        "HTTP_PROXY": "http://proxy.example:3128",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "UV_HTTP_RETRIES": "0",
    }


def test_an_index_takes_the_place_of_pips_and_a_directory_of_all_of_it() -> None:
    settings = pip_settings(LISTED)
    assert Source(index=INDEX).for_uv(settings)[1]["UV_DEFAULT_INDEX"] == INDEX
    assert Source(index=INDEX).for_uv(settings)[1]["SSL_CERT_FILE"] == "/etc/ssl/certs/site.pem"
    assert Source(wheels="/srv/wheels").for_uv(settings) == (["--no-index", "--find-links=/srv/wheels"], {})
    assert Source().for_uv({"no-index": "True"}) == (["--no-index"], {})
    assert Source().for_pip() == []
    assert Source(index=INDEX).for_pip() == [f"--index-url={INDEX}"]
    assert Source(wheels="/srv/wheels").for_pip() == ["--no-index", "--find-links=/srv/wheels"]


# -- its own pin -------------------------------------------------------------------------------------------------------


def test_the_role_pins_the_uv_that_is_tested_here() -> None:
    """`make lock` writes it; the whole of requirements.lock is no lock of that kind, since it has conditions."""
    text = (ROOT / "requirements.lock").read_text()
    lines = text[text.index("\nuv==") + 1 :].splitlines()
    end = next(number for number, line in enumerate(lines) if not line.endswith("\\")) + 1
    assert PIN.read_text().splitlines()[1:] == lines[:end]
    tool = parse_tool(PIN.read_text())
    assert tool.digest == parse_lock(PIN.read_text()).digest
    assert is_tool(tool.name)


def test_a_lock_of_something_else_is_no_pin_of_uv() -> None:
    with pytest.raises(LockError, match="the lock of uv pins words, expected uv alone"):
        parse_tool("words==1.0 --hash=sha256:" + "ab" * 32)


@pytest.mark.parametrize(
    "entry", ["uv", "uv-0123456789abcdef", "uv-0123456789abcdef.wheels", "uv-1.2/..", "vllm-0.32.0"]
)
def test_what_is_not_the_environment_of_uv(entry: str) -> None:
    assert not is_tool(entry)
