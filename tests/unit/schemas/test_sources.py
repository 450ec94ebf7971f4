# SPDX-License-Identifier: Apache-2.0
"""The readers of source text, on small samples of the same shape."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from scripts.schemas import click_source, python_source
from scripts.schemas.expressions import Source, UnresolvedError
from scripts.schemas.releases import ReleasesError

ENGINE = """
METHODS = {"awq": AWQ, "fp8": FP8}
Task = Literal["auto", "embed"]
class Format(str, enum.Enum):
    AUTO = "auto"
    HF = "hf"
class EngineArgs:
    model: str = "facebook/opt"
    level: int = 2
    fmt: Format = Format.AUTO
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model", type=str, default=EngineArgs.model)
        parser.add_argument("--level", "-l", type=int, default=EngineArgs.level, choices=[1, 2])
        parser.add_argument("--quantization", type=nullable_str, choices=[*METHODS, None])
        parser.add_argument("--task", choices=get_args(Task))
        parser.add_argument("--format", choices=[f.value for f in Format], default=EngineArgs.fmt)
        parser.add_argument("--eager", action="store_true", help="[DEPRECATED] is deprecated, use --level")
        parser.add_argument("--prefix", action=argparse.BooleanOptionalAction)
        parser.add_argument("--chunked", action=StoreBoolean, default=None, nargs="?", const="True")
        parser.add_argument("--unknown", choices=made_at_run_time())
        group.add_argument("--not-ours")
"""
CLI = """
def make_arg_parser(parser):
    parser.add_argument("--origins", type=json.loads, default=["*"])
    parser.add_argument("--tool-call-parser", type=str)
    return parser
def another(parser):
    parser.add_argument("--elsewhere")
"""
TOOLS = """
@ToolParserManager.register_module("hermes")
class Hermes: ...
@ToolParserManager.register_module(["llama3_json", "llama4_json"])
class Llama: ...
"""
SCRIPTS = """
def main():
    serve_parser.add_argument("model_tag", type=str)
    serve_parser.add_argument("--config", type=str, default="", required=False)
    chat_parser.add_argument("--url")
"""
FILES = {
    "vllm/engine/arg_utils.py": ENGINE,
    "vllm/entrypoints/openai/cli_args.py": CLI,
    "vllm/entrypoints/openai/tool_parsers/hermes.py": TOOLS,
    "vllm/scripts.py": SCRIPTS,
}


def test_add_argument_calls() -> None:
    found = python_source.read_sources(FILES, "1.0")
    arguments: dict[str, Any] = {argument["names"][0]: argument for argument in found["arguments"] if argument["names"]}
    assert [argument["name"] for argument in found["arguments"] if not argument["names"]] == ["model_tag"]
    assert set(arguments) >= {"--model", "--level", "--config", "--origins"}
    assert not {"--url", "--elsewhere"} & set(arguments)
    assert arguments["--model"]["default"] == "facebook/opt"
    assert (arguments["--level"]["names"], arguments["--level"]["choices"]) == (["--level", "-l"], [1, 2])
    assert (arguments["--quantization"]["choices"], arguments["--quantization"]["also"]) == (
        ["awq", "fp8"],
        ["none", "none"],
    )
    assert arguments["--task"]["choices"] == ["auto", "embed"]
    assert (arguments["--format"]["choices"], arguments["--format"]["default"]) == (["auto", "hf"], "auto")
    assert (arguments["--eager"]["type"], arguments["--eager"]["deprecated"]) == ("bool", "use --level")
    assert arguments["--prefix"]["negatable"]
    assert (arguments["--chunked"]["choices"], arguments["--chunked"]["nargs"]) == (["true", "false"], "?")
    assert arguments["--unknown"]["choices"] is None
    assert (arguments["--origins"]["type"], arguments["--origins"]["default"]) == ("json", ["*"])
    assert arguments["--tool-call-parser"]["values"] == ["hermes", "llama3_json", "llama4_json"]


def test_files_that_moved_are_an_error() -> None:
    with pytest.raises(ReleasesError, match="not where they were expected"):
        python_source.read_sources({"vllm/scripts.py": "x = 1"}, "9.9")


SERVE = """
class BuildConfig(BaseModel):
    max_batch_size: int = Field(default=2048, description="x")
class ToolParserFactory:
    parsers: dict[str, type] = {"qwen3": Q, "kimi": K}
@click.command("serve")
@click.argument("model", type=str)
@click.option("--tp_size", "--tensor_parallel_size", type=int, default=1, help=tagged("x", "beta"))
@click.option("--backend", type=ChoiceWithAlias(["pytorch", "tensorrt"], {"trt": "tensorrt"}), default="pytorch")
@click.option("--max_batch_size", type=int, default=BuildConfig.model_fields["max_batch_size"].default)
@click.option("--trust_remote_code", is_flag=True, default=False)
@click.option("--dirs", type=click.Path(exists=True), multiple=True)
@click.option("--tool_parser", type=click.Choice(ToolParserFactory.parsers.keys()))
@click.option("--config", "--extra", "extra", type=str)
def serve(model): ...
"""


def test_click_options() -> None:
    found = click_source.read_sources({click_source.SERVE: SERVE}, "1.0")
    model, tensor, backend, batch, trust, dirs, tools, config = found["arguments"]
    assert (model["names"], model["name"]) == ([], "model")
    assert (tensor["names"], tensor["type"], tensor["help"]) == (["--tp_size", "--tensor_parallel_size"], "int", "beta")
    assert backend["choices"] == ["pytorch", "tensorrt", "trt"]
    assert batch["default"] == 2048
    assert (trust["type"], trust["nargs"]) == ("bool", 0)
    assert dirs["repeatable"]
    assert tools["choices"] == ["kimi", "qwen3"]
    assert config["names"] == ["--config", "--extra"]


def test_click_choices_that_are_elsewhere_are_an_error() -> None:
    text = '@click.option("--x", type=click.Choice(Elsewhere.parsers.keys()))\ndef serve(): ...\n'
    with pytest.raises(ReleasesError, match=r"Elsewhere\.parsers"):
        click_source.read_sources({click_source.SERVE: text}, "1.0")
    with pytest.raises(ReleasesError, match="no function serve"):
        click_source.read_sources({click_source.SERVE: "x = 1"}, "1.0")


@pytest.mark.parametrize("text", ["f()", "a", "b", "x.y", "[i for i in a if i]"])
def test_what_a_source_does_not_tell_is_unresolved(text: str) -> None:
    source = Source(["a = b\nb = a\n"])
    node = ast.parse(text, mode="eval").body
    with pytest.raises(UnresolvedError):
        source.value(node)
