# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines import arguments
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import (
    ERRORS,
    MOST_WORDS,
    Finding,
    check_arguments,
    check_environment,
    to_errors,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import load_replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import (
    ENGINES,
    EngineSchema,
    available,
    load_schema,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from hypothesis import given
from hypothesis import strategies as st

from tests.flag_examples import bad_lines, good_lines, good_words
from tests.unit.examples import examples

REPLACED = load_replaced([ENGINES])


def schema_of(engine: str, version: str) -> EngineSchema:
    schema = load_schema([ENGINES], engine, version)
    assert schema is not None
    return schema


VLLM = schema_of("vllm", "0.32.0")
OLD_VLLM = schema_of("vllm", "0.7.3")
SGLANG = schema_of("sglang", "0.5.23")
TRTLLM = schema_of("tensorrt-llm", "1.2.1")
ALL = [schema_of(*name.split("==")) for name in available([ENGINES])]


def check(schema: EngineSchema, line: str) -> list[Finding]:
    return check_arguments(schema, shlex.split(line), REPLACED)


def only(findings: list[Finding]) -> Finding:
    wrong = [finding for finding in findings if finding["problem"]]
    assert len(wrong) == 1, findings
    return wrong[0]


def ids(findings: list[Finding]) -> list[str]:
    errors = PlanErrors()
    to_errors(findings, errors)
    return [error["id"] for error in errors.found]


ACCEPTED = [
    (VLLM, "vllm serve /model --tensor-parallel-size 4"),
    (VLLM, "/opt/venv/bin/vllm serve /model -tp 4 -tp=4"),
    (VLLM, "python3 -m vllm.entrypoints.openai.api_server --model /model"),
    (VLLM, "/model --max_num_seqs 4 --kv_cache_dtype=fp8"),
    (VLLM, "/model --max-num-batched-tokens 8k --max-model-len auto --kv-cache-memory-bytes 64M"),
    (VLLM, "/model --speculative-config.method mtp --speculative-config.num_speculative_tokens 2"),
    (VLLM, """/model --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'"""),
    (VLLM, "/model --no-enable-prefix-caching --enable-expert-parallel -ep"),
    (VLLM, "/model --served-model-name a b c --port 8000"),
    (VLLM, "/model -O3 -O 2 -n4"),
    (VLLM, "/model --attention-backend flashinfer --attention-backend auto"),
    (VLLM, "/model --tool-parser-plugin mine.py --tool-call-parser mine"),
    (VLLM, "/model --distributed-executor-backend my.package.Executor"),
    (VLLM, "/model --quantization None"),
    (VLLM, """/model --hf-overrides '{"rope_theta": 1}' --hf-overrides words"""),
    (VLLM, """/model --compilation-config '{"max_cudagraph_capture_size": 1k}'"""),
    (VLLM, "/model --moe-backend FLASHINFER-CUTLASS"),
    (VLLM, "/model --seed -5 --max-model-len -1 --gpu-memory-utilization 1 --port 65535 --grpc-port None"),
    (VLLM, "NCCL_DEBUG=INFO HF_TOKEN=x vllm serve /model --port 1"),
    (VLLM, "/usr/bin/env -u X --chdir /tmp NCCL_DEBUG= /opt/bin/vllm serve /model"),
    (VLLM, "export NCCL_DEBUG=INFO"),
    (VLLM, "/models/vllm --port 1"),
    (OLD_VLLM, "vllm serve /model --enable-reasoning --reasoning-parser deepseek_r1 --swap-space 4 --device cuda"),
    (OLD_VLLM, "/model --enable-chunked-prefill True --enable-chunked-prefill"),
    (SGLANG, "python -m sglang.launch_server --model-path /model --tp-size 8 --kv-cache-dtype fp8_e4m3"),
    (SGLANG, "--context-length 8Ki --tensor-parallel-size 8"),
    (TRTLLM, "trtllm-serve /model --tp_size 4 --backend trt"),
    (TRTLLM, "trtllm-llmapi-launch trtllm-serve serve /model --max_seq_len 8192"),
]


@pytest.mark.parametrize(("schema", "line"), ACCEPTED, ids=[line for _, line in ACCEPTED])
def test_accepted(schema: EngineSchema, line: str) -> None:
    findings = check(schema, line)
    assert not [finding for finding in findings if finding["problem"]]
    assert all(finding["known"] for finding in findings)


REFUSED = [
    (VLLM, "/model --scheduler-policy continuous", "flags.replaced", "--scheduling-policy"),
    (VLLM, "/model --enable-sequence-parallelism", "flags.replaced", "--decode-context-parallel-size"),
    (VLLM, "/model --enable-reasoning", "flags.replaced", "--reasoning-parser"),
    (VLLM, "/model --disable-log-requests", "flags.replaced", "--no-enable-log-requests"),
    (VLLM, "/model --num-scheduler-steps 8", "flags.replaced", "--async-scheduling"),
    (VLLM, "'--scheduler-policy continuous'", "flags.stray", "--scheduling-policy"),
    (VLLM, "'--port 8000'", "flags.stray", "--port"),
    (VLLM, "'--tensor-paralel-size 8'", "flags.stray", "--tensor-parallel-size"),
    (VLLM, "'vllm serve /model --port 8000'", "flags.stray", None),
    (VLLM, "/model --tensor-parallel-size 0", "flags.value", None),
    (VLLM, "/model -tp -4", "flags.value", None),
    (VLLM, "/model --port 99999999", "flags.value", None),
    (VLLM, "/model --port=0", "flags.value", None),
    (VLLM, "/model --gpu-memory-utilization 1.5", "flags.value", None),
    (VLLM, "/model --gpu-memory-utilization 0", "flags.value", None),
    (VLLM, "/model --max-num-seqs -5", "flags.value", None),
    (VLLM, "/model --max-model-len 0", "flags.value", None),
    (OLD_VLLM, "/model --tensor-parallel-size 0", "flags.value", None),
    (SGLANG, "--tp-size 0", "flags.value", None),
    (SGLANG, "--mem-fraction-static 2", "flags.value", None),
    (TRTLLM, "/model --tp_size 0", "flags.value", None),
    (TRTLLM, "/model --kv_cache_free_gpu_memory_fraction 1.1", "flags.value", None),
    (TRTLLM, "trtllm-build --tp_size 4", "flags.program", None),
    (TRTLLM, "/usr/local/bin/trtllm-bench /model", "flags.program", None),
    (TRTLLM, "trtllm-serve disaggregated", "flags.program", None),
    (TRTLLM, "vllm serve /model", "flags.program", None),
    (VLLM, "vllm bench serve --model x", "flags.program", None),
    (VLLM, "vllm --port 1", "flags.program", None),
    (VLLM, "python3 -m vllm.entrypoints.api_server --port 1", "flags.program", None),
    (SGLANG, "python -m sglang.bench_serving --port 1", "flags.program", None),
    (VLLM, "NCCL_TIMEOUT=600", "flags.environment", None),
    (VLLM, "NCCL_DEBUG=INFO NCCL_TIMEOUT=600 vllm serve /model --port 1", "flags.environment", None),
    (VLLM, "env NCCL_TIMEOUT=600 python3 -m vllm.entrypoints.openai.api_server", "flags.environment", None),
    (VLLM, "export VLLM_USE_V1=1", "flags.environment", None),
    (VLLM, "/model --swap-space 4", "flags.replaced", "--kv-offloading-size"),
    (VLLM, "/model --max-num-b 77", "flags.abbreviation", "--max-num-batched-tokens"),
    (VLLM, "/model --tensor-parallel 4", "flags.abbreviation", "--tensor-parallel-size"),
    (VLLM, "/model --tensor-paralel-size 4", "flags.unknown", "--tensor-parallel-size"),
    (VLLM, "/model --max-concurrency 4", "flags.unknown", "--max-num-seqs"),
    (VLLM, "/model --max-context 4", "flags.unknown", "--max-model-len"),
    (VLLM, "/model --kv-cache-dtype fp9", "flags.value", "--kv-cache-dtype fp8"),
    (VLLM, "/model --tensor-parallel-size four", "flags.value", None),
    (VLLM, "/model --tensor-parallel-size", "flags.value", None),
    (VLLM, "/model --gpu-memory-utilization nan", "flags.value", None),
    (VLLM, "/model --max-num-batched-tokens 8.5K", "flags.value", None),
    (VLLM, "/model --max-num-batched-tokens 8kk", "flags.value", None),
    (VLLM, "/model --enforce-eager=true", "flags.value", "--enforce-eager"),
    (VLLM, "/model --enforce-eager true", "flags.stray", None),
    (VLLM, "/model second", "flags.stray", None),
    (VLLM, "/model tensor-parallel-size", "flags.stray", "--tensor-parallel-size"),
    (VLLM, "/model --speculative-config '{'", "flags.value", None),
    (VLLM, """/model --speculative-config '{"metod": 1}'""", "flags.value", "--speculative-config method"),
    (VLLM, "/model --speculative-config.metod mtp", "flags.value", "--speculative-config.method"),
    (VLLM, "/model --speculative-config.method", "flags.value", None),
    (VLLM, "/model --port.x 1", "flags.value", "--port"),
    (VLLM, "/model --reasoning-parser qwen", "flags.value", "--reasoning-parser qwen3"),
    (VLLM, "/model --attention-backend NOPE", "flags.value", None),
    (VLLM, "/model --no-headless", "flags.unknown", "--headless"),
    (VLLM, "/model --help", "flags.unknown", None),
    (VLLM, "/model --max-lora-rank 7", "flags.value", None),
    (OLD_VLLM, "/model --block-size 256", "flags.value", None),
    (OLD_VLLM, "/model --speculative-config.method x", "flags.unknown", None),
    (SGLANG, "--enable-radixattention", "flags.replaced", "--disable-radix-cache"),
    (SGLANG, "--enable-radix-cache", "flags.replaced", "--disable-radix-cache"),
    (SGLANG, "--tp 8", "flags.replaced", "--tp-size"),
    (SGLANG, "--max_running_requests 8", "flags.unknown", "--max-running-requests"),
    (SGLANG, "--context-length 8K", "flags.value", None),
    (SGLANG, "word", "flags.stray", None),
    (TRTLLM, "/model --tp-size 4", "flags.replaced", "--tp_size"),
    (TRTLLM, "/model --tp_siz 4", "flags.unknown", "--tp_size"),
]


@pytest.mark.parametrize(("schema", "line", "error", "nearest"), REFUSED, ids=[line for _, line, _, _ in REFUSED])
def test_refused_with_the_nearest(schema: EngineSchema, line: str, error: str, nearest: str | None) -> None:
    finding = only(check(schema, line))
    assert finding["error"] == error
    if nearest is not None:
        assert finding["nearest"] == nearest


def remedies(findings: list[Finding]) -> list[str]:
    errors = PlanErrors()
    to_errors(findings, errors)
    return [error["remedy"] for error in errors.found]


def test_another_program_is_refused_and_its_flags_are_evaluated_as_the_server_would() -> None:
    program, directory, size = check(TRTLLM, "trtllm-build --checkpoint_dir x --tp_size 4")
    assert (program["replaced_by"], program["known"]) == ("trtllm-serve", False)
    assert "trtllm-serve --tp_size" in str(program["explanation"])
    assert directory["error"] == "flags.replaced"
    assert size["problem"] is None
    assert remedies([program]) == ["instead of trtllm-build write trtllm-serve"]
    assert remedies(check(VLLM, "vllm bench serve")) == ["instead of vllm bench serve write vllm serve"]


def test_variables_before_the_command_are_evaluated_with_it() -> None:
    variable, policy = check(VLLM, "NCCL_TIMEOUT=600 HF_TOKEN=hunter2 vllm serve /model --scheduler-policy x")
    assert variable["argument"] == "NCCL_TIMEOUT"
    assert variable["replaced_by"] == "--distributed-timeout-seconds"
    assert variable["explanation"]
    assert policy["replaced_by"] == "--scheduling-policy fcfs"
    assert only(check(SGLANG, "NCCL_TIMEOUT=600"))["replaced_by"] == "--dist-timeout"
    assert "hunter2" not in str(check(VLLM, "HF_TOKEN=hunter2 NCCL_TIMEOUT=hunter2"))


def test_what_this_version_lacks_is_no_remedy() -> None:
    assert only(check(OLD_VLLM, "NCCL_TIMEOUT=600"))["replaced_by"] is None
    finding = only(check(OLD_VLLM, "/model --dist-init-addr x"))
    assert finding["replaced_by"] is None
    assert finding["nearest"] is None or finding["nearest"] in OLD_VLLM.by_name


def test_a_flag_and_its_value_in_one_word_are_to_be_split() -> None:
    findings = check(VLLM, "'--scheduler-policy continuous' '--port 8000' 'a --port 1'")
    assert remedies(findings) == [
        "split it: write --scheduling-policy fcfs, every word separately",
        "split it: write --port and its value, every word separately",
        "split it: write every word separately",
    ]


@given(number=st.integers(), name=st.sampled_from(("--port", "--tensor-parallel-size")))
def test_a_number_is_refused_exactly_outside_its_range(number: int, name: str) -> None:
    (finding,) = check_arguments(VLLM, ["/model", f"{name}={number}"], REPLACED)
    right = number >= 1 and (name != "--port" or number <= 65535)
    assert (finding["problem"] is None) == (right and len(str(number)) <= 40)


def test_values_that_mean_something_else_in_another_engine() -> None:
    finding = only(check(SGLANG, "--kv-cache-dtype fp8"))
    assert finding["replaced_by"] == "--kv-cache-dtype fp8_e4m3"
    finding = only(check(SGLANG, "--tool-call-parser qwen3_xml"))
    assert finding["replaced_by"] == "--tool-call-parser qwen3_coder"
    finding = only(check(VLLM, "/model --scheduling-policy continuous"))
    assert finding["replaced_by"] == "--scheduling-policy fcfs"


def test_an_accepted_value_can_be_worth_a_word() -> None:
    (finding,) = check(VLLM, "/model --quantization fp8")
    assert finding["problem"] is None
    assert "config.json" in str(finding["explanation"])


def test_says_when_a_flag_came_or_went() -> None:
    finding = only(check(OLD_VLLM, "/model --language-model-only"))
    assert finding["explanation"] == "It was added in vllm 0.17.0"
    finding = only(check(VLLM, "/model --scheduler-delay-factor 1"))
    assert str(finding["explanation"]).startswith("vllm had it from 0.4.0 to ")


def test_a_deprecated_flag_says_so() -> None:
    (finding,) = check(SGLANG, "--enable-dp-attention")
    assert finding["problem"] is None
    assert "--attn-dp-size" in str(finding["explanation"])


def test_a_flag_given_twice_says_so() -> None:
    first, second = check(VLLM, "/model --port 1 --port 2")
    assert first["explanation"] is None
    assert "more than once" in str(second["explanation"])


def test_secrets_are_not_repeated() -> None:
    findings = check(VLLM, "/model --api-key hunter2 --hf-token=hunter2")
    assert [finding["argument"] for finding in findings] == ["--api-key ...", "--hf-token ..."]
    assert "hunter2" not in str(check(SGLANG, "--api-key= --admin-api-key=hunter2"))
    assert [finding["argument"] for finding in check(VLLM, "/model --max-num-batched-tokens 8192 --tokenizer x")] == [
        *("--max-num-batched-tokens 8192", "--tokenizer x")
    ]


@pytest.mark.parametrize("schema", ALL, ids=lambda schema: schema.title)
@pytest.mark.parametrize(
    "words",
    [
        ["--api-key hunter2"],
        ["--api-key: hunter2"],
        ["--api-key\thunter2"],
        ["--apikey=hunter2"],
        ["--api-key:hunter2", "x"],
        ["--api-keys", "x", "hunter2"],
        ["--api-key", "-hunter2"],
        ["--hf-token", "--hunter2"],
        ["--ssl-keyfile-password", "x", "hunter2", "hunter2"],
        ["api-key", "hunter2"],
        ["--api-key hunter1", "hunter2"],
        ["HF_TOKEN=hunter2"],
        ["--port", "token=hunter2"],
        ["--port", "https://me:hunter2@hub/"],
        ["https://me:hunter2@hub/"],
        ["--speculative-config.api_key", "hunter2"],
        ["--speculative-config", '{"api_key": "hunter2", "x": ["hunter2"]}'],
        ["--speculative-config", '{"api_key":"hunter2"'],
        ["--speculative-config", "{'token': 'hunter2'}"],
        ["--hf-overrides", '{"Authorization": "Bearer hunter2"}'],
    ],
    ids=" ".join,
)
def test_no_secret_is_repeated_in_whatever_form_it_comes(schema: EngineSchema, words: list[str]) -> None:
    findings = check_arguments(schema, ["/model", *words], REPLACED)
    assert findings
    errors = PlanErrors()
    to_errors(findings, errors)
    assert "hunter2" not in f"{findings} {errors.found}"


def test_a_misspelt_secret_flag_hides_what_follows_it() -> None:
    for line in ("--api-ke x hunter2", "--hf-tokn x hunter2"):
        assert "hunter2" not in str(check(VLLM, f"/model {line}"))


@given(secret=st.from_regex(r"[A-Za-z0-9+/=._-]{12,40}", fullmatch=True), data=st.data())
def test_no_word_after_a_secret_flag_is_repeated(secret: str, data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(ALL))
    secret = f"zq{secret}" if data.draw(st.booleans()) else f"-zq{secret}"
    form = data.draw(st.sampled_from((["--api-key", secret], [f"--api-key={secret}"], [f"--api-key {secret}"])))
    findings = check_arguments(schema, ["/model", *form, *data.draw(st.sampled_from(([], ["--port", "x"])))], REPLACED)
    assert "zq" not in str(findings)


def test_all_are_reported_at_once_with_the_same_ids() -> None:
    findings = check(VLLM, "/model --scheduler-policy continuous --port x --nope y stray")
    assert ids(findings) == ["flags.replaced", "flags.value", "flags.unknown", "flags.stray"]
    assert set(ids(findings)) <= set(ERRORS)


def test_remedies_name_the_change() -> None:
    errors = PlanErrors()
    to_errors(check(SGLANG, "--tp 8 --enable-radix-cache"), errors)
    assert [error["remedy"] for error in errors.found] == [
        "instead of --tp write --tp-size",
        "remove --enable-radix-cache; see --disable-radix-cache",
    ]


def test_terminals_are_not_commanded() -> None:
    assert "\x1b" not in str(
        check_arguments(VLLM, ["/model", "--\x1b[31m", "x", "\x1b[2J", "--port", "\x1b"], REPLACED)
    )


def test_a_line_too_long_is_one_finding() -> None:
    assert ids(check_arguments(VLLM, ["--x"] * (MOST_WORDS + 1), REPLACED)) == ["flags.too-many"]


def test_environment() -> None:
    found = check_environment(["NCCL_TIMEOUT", "NCCL_SOCKET_IFNAME", "VLLM_ATTENTION_BACKEND"], REPLACED)
    assert [finding["argument"] for finding in found] == ["NCCL_TIMEOUT"]
    assert ids(found) == ["flags.environment"]
    names = ["VLLM_ATTENTION_BACKEND"]
    assert not check_environment(names, REPLACED, "vllm", "0.7.3")
    assert [item["replaced_by"] for item in check_environment(names, REPLACED, "vllm", "0.32.0")] == [
        "--attention-backend"
    ]


@pytest.mark.parametrize("schema", ALL, ids=lambda schema: schema.title)
def test_every_flag_of_a_schema_is_accepted(schema: EngineSchema) -> None:
    for line in good_lines(schema):
        words = line if schema.positional or line[0] != "/model" else line[1:]
        wrong = [finding for finding in check_arguments(schema, words, REPLACED) if finding["problem"]]
        assert not wrong, (line, wrong)


@pytest.mark.parametrize("schema", ALL, ids=lambda schema: schema.title)
def test_wrong_lines_are_refused(schema: EngineSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for what was meant takes longer than all the rest, and has tests of its own."""
    monkeypatch.setattr(arguments, "nearest_flag", lambda *_: None)
    for line in bad_lines(schema):
        words = line if schema.positional else line[1:]
        assert any(finding["problem"] for finding in check_arguments(schema, words, REPLACED)), line


@given(data=st.data())
@examples(150)
def test_any_command_line_made_of_the_schema_is_accepted(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(ALL))
    names = data.draw(st.lists(st.sampled_from(sorted(schema.by_name)), max_size=12))
    words = ["/model"] if schema.positional and "--model" not in names else []
    for name in names:
        words += good_words(schema.by_name[name], name)
    findings = check_arguments(schema, words, REPLACED)
    assert len(findings) == len(names)
    assert not [finding for finding in findings if finding["problem"]]


@given(
    name=st.from_regex(r"--[a-z][a-z-]{0,30}", fullmatch=True),
    value=st.text(max_size=20),
    schema=st.sampled_from(ALL),
)
@examples(150)
def test_any_unknown_flag_is_refused(name: str, value: str, schema: EngineSchema) -> None:
    known = name in schema.by_name
    findings = check_arguments(schema, [name, value], REPLACED)
    assert findings[0]["known"] is known
    assert known or findings[0]["error"] in {"flags.unknown", "flags.replaced", "flags.abbreviation"}


@pytest.mark.slow  # every example is parsed by every engine
@given(words=st.lists(st.one_of(st.text(max_size=40), st.sampled_from(sorted(VLLM.by_name))), max_size=12))
def test_arbitrary_text_never_raises(words: list[str]) -> None:
    for schema in ALL:
        for finding in check_arguments(schema, words, REPLACED):
            assert (finding["problem"] is None) == (finding["error"] is None)
            to_errors([finding], PlanErrors())


def test_hostile_json_is_refused() -> None:
    deep = "[" * 100_000
    assert ids(check_arguments(VLLM, ["/model", "--speculative-config", deep], REPLACED)) == ["flags.value"]
    long = '{"a": "' + "x" * 300_000 + '"}'
    assert ids(check_arguments(VLLM, ["/model", "--speculative-config", long], REPLACED)) == ["flags.value"]
    assert ids(check_arguments(VLLM, ["/model", "--port", "9" * 10_000], REPLACED)) == ["flags.value"]
