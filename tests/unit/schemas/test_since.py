# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import base64
import http.server
import io
import json
import re
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.schemas import __main__ as program
from scripts.schemas import since
from scripts.schemas.releases import Releases, ReleasesError

PATH = "vllm/engine/arg_utils.py"


def wheel(flags: list[str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("vllm/large.bin", bytes(600_000))
        calls = "".join(f'    parser.add_argument("{flag}")\n' for flag in flags)
        archive.writestr(PATH, f"def add_cli_args(parser):\n{calls}    return parser\n")
    return content.getvalue()


SENT: list[str | None] = []
"""The logins of the requests."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index with three releases, one of them a candidate, that serves ranges of files."""
    SENT.clear()
    wheels = {
        "vllm-0.9.0-py3-none-any.whl": wheel(["--old", "--stays"]),
        "vllm-0.10.0-py3-none-any.whl": wheel(["--stays", "--new"]),
        "vllm-0.11.0rc1-py3-none-any.whl": wheel(["--candidate"]),
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            SENT.append(self.headers["Authorization"])
            self.send_response(200)
            self.send_header("Content-Length", str(len(wheels[self.path.rpartition("/")[2]])))
            self.end_headers()

        def do_GET(self) -> None:
            SENT.append(self.headers["Authorization"])
            if self.path == "/simple/vllm/":
                body = "".join(f'<a href="../../files/{name}#sha256=0">{name}</a>' for name in wheels).encode()
            else:
                first, last = re.findall(r"\d+", self.headers["Range"])
                body = wheels[self.path.rpartition("/")[2]][int(first) : int(last) + 1]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the base class names it so
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    thread.join()
    server.server_close()


def test_files_are_read_out_of_wheels_and_kept(index: str, tmp_path: Path) -> None:
    releases = Releases("vllm", index=index, cache=tmp_path)
    assert list(releases.wheels()) == ["0.9.0", "0.10.0"]
    assert list(releases.read("0.9.0", since.FILES["vllm"])) == [PATH]
    offline = Releases("vllm", index="http://127.0.0.1:9/simple", cache=tmp_path)
    assert "--old" in offline.read("0.9.0", since.FILES["vllm"])[PATH]
    with pytest.raises(ReleasesError, match="--index"):
        offline.read("0.10.0", since.FILES["vllm"])
    with pytest.raises(ReleasesError, match=r"no wheel .* 0\.10\.0"):
        releases.read("7.7", since.FILES["vllm"])


def test_a_scan_dates_the_flags_of_the_schemas(index: str, tmp_path: Path) -> None:
    output = tmp_path / "engines"
    common = ["--index", index, "--cache", str(tmp_path / "cache"), "--output", str(output), "--date", "2026-01-01"]
    assert program.main(["vllm-source", "0.10.0", *common]) == 0
    assert program.main(["since", "vllm", *common]) == 0
    schema = json.loads((output / "vllm-0.10.0.json").read_text(encoding="utf-8"))
    assert {flag["names"][0]: flag["since"] for flag in schema["flags"]} == {"--new": "0.10.0", "--stays": "0.9.0"}
    history = json.loads((output / "since" / "vllm.json").read_text(encoding="utf-8"))
    assert history["scanned"] == ["0.9.0", "0.10.0"]
    assert history["flags"]["--old"] == [["0.9.0", "0.9.0"]]
    before = (output / "vllm-0.10.0.json").read_text(encoding="utf-8")
    assert program.main(["vllm-source", "0.10.0", *common]) == 0
    assert (output / "vllm-0.10.0.json").read_text(encoding="utf-8") == before


def test_a_flag_that_came_back_counts_from_its_return() -> None:
    history = {"scanned": ["1", "2", "3"], "flags": since.lifetimes([("1", {"--x"}), ("2", set()), ("3", {"--x"})])}
    assert history["flags"] == {"--x": [["1", "1"], ["3", "3"]]}
    assert since.first_releases(history, "3") == {"--x": "3"}
    assert since.first_releases(history, "2") == {}
    assert since.first_releases(history, "9") == {"--x": "3"}


def test_fields_of_some_classes_are_flags() -> None:
    text = "class FrontendArgs:\n    api_key: str = ''\nclass Other:\n    no_flag: int = 1\nX = '--literal'\n"
    assert since.flags_in({"x.py": text}) == {"--api-key", "--literal"}
    assert since.flags_in({"sglang/srt/arg_groups/fields/a.py": "class A:\n    tp_size: int = 1\n"}) == {"--tp-size"}


def test_tags_of_a_clone(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True)

    git("init", "--quiet")
    serve = tmp_path / "tensorrt_llm" / "commands" / "serve.py"
    serve.parent.mkdir(parents=True)
    for version, option in (("1.0.0rc1", "--a"), ("1.0.0", "--b")):
        serve.write_text(
            f'@click.argument("model")\n@click.option("--a")\n@click.option("{option}")\ndef serve(): ...\n'
        )
        git("add", ".")
        git("commit", "--quiet", "-m", version)
        git("tag", f"v{version}")
    git("tag", "nightly")
    output = ["--git", str(tmp_path), "--output", str(tmp_path / "out"), "--date", "2026-01-01"]
    assert program.main(["tensorrt-llm", "1.0.0", *output]) == 0
    assert program.main(["since", "tensorrt-llm", *output]) == 0
    schema = json.loads((tmp_path / "out" / "tensorrt-llm-1.0.0.json").read_text(encoding="utf-8"))
    assert {flag["names"][0]: flag["since"] for flag in schema["flags"]} == {"--a": "1.0.0rc1", "--b": "1.0.0"}
    assert re.fullmatch(r".*commit [0-9a-f]{40},.*", schema["source"])


def test_what_can_not_be_had_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["tensorrt-llm", "9.9", "--git", str(tmp_path)]) == 1
    assert "no tag v9.9" in capsys.readouterr().err
    assert program.main(["vllm", "--python", "/bin/false", "--output", str(tmp_path)]) == 1
    assert "could not describe vllm" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_login_in_the_address_is_used_as_pip_does(index: str, tmp_path: Path) -> None:
    releases = Releases("vllm", index=index.replace("//", "//me:hunt%40r2@"), cache=tmp_path)
    assert list(releases.read("0.9.0", since.FILES["vllm"])) == [PATH]
    assert set(SENT) == {f"Basic {base64.b64encode(b'me:hunt@r2').decode('ascii')}"}


@pytest.mark.parametrize(
    "address",
    [
        *("http://me:hunter2@127.0.0.1:9/simple", "ftp://me:hunter2@index.example/simple", "me:hunter2@index.example"),
        *("http://me:hunter2@127.0.0.1:port/simple", "https://hunter2@127.0.0.1:9/", "http://me:/hunter2@127.0.0.1/"),
    ],
)
def test_a_login_in_the_address_is_in_no_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert program.main(["vllm-source", "0.9.0", "--index", address, "--cache", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "--index" in said.err or "https://" in said.err
    assert "hunter2" not in said.err + said.out


def test_since_needs_a_known_engine() -> None:
    with pytest.raises(SystemExit):
        program.build_parser().parse_args(["since", "another"])
    assert isinstance(program.build_parser().parse_args(["since", "vllm"]), argparse.Namespace)
