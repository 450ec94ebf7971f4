# SPDX-License-Identifier: Apache-2.0
"""The endpoint on paper: which paths there are, who is known by which header, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import (
    KEY_MAP_PATH,
    PATHS,
    Key,
    all_paths,
    certificate_names,
    check_engine_key,
    check_upstream,
    check_value,
    key_map,
    path_pattern,
    read_keys,
    spooled_at_once,
    upstream_header,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.balancer import balancer_unit
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.balancer import configuration as balancer
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint import (
    DEFAULTS,
    IN_MEMORY,
    configuration,
    endpoint_unit,
)
from hypothesis import example, given
from hypothesis import strategies as st

LISTED = all_paths([])
TRICKS = st.lists(
    st.sampled_from(["/", "//", "..", ".", "%2e", "%2F", "v1", "V1", "models", "pause", "health", "?", "#", ";", "*"]),
    max_size=10,
).map("".join)
VALUE = st.from_regex(r"[A-Za-z0-9._~+/-]{20,60}={0,2}", fullmatch=True)


def asked_path(target: str) -> str | None:
    """What nginx would hand on with this target; it answers None with 404."""
    found = re.search(path_pattern(LISTED), target)
    return found["endpoint_asked"] if found else None


def is_listed(path: str) -> bool:
    """Whether a path is one of the list, its stars one identifier each."""
    for pattern in LISTED:
        words, asked = pattern.split("/"), path.split("/")
        if len(words) == len(asked) and all(
            re.fullmatch("[A-Za-z0-9_-]{1,128}", one) if word == "*" else word == one
            for word, one in zip(words, asked, strict=True)
        ):
            return True
    return False


@pytest.mark.parametrize("path", [path.replace("*", "resp_1a-B") for path in [*PATHS, "/health"]])
def test_what_is_listed_is_asked_for_as_it_stands(path: str) -> None:
    assert asked_path(path) == path
    assert asked_path(f"{path}?a=/../b") == path
    assert asked_path(f"{path}/") is None
    assert asked_path(f"/{path}") is None


@pytest.mark.hostile
@pytest.mark.parametrize(
    "target", ["/pause", "/v1/../pause", "/v1/%2e%2e/pause", "/v1", "", "*", "/v1/responses/..", "/v1/responses/a.b"]
)
def test_what_is_not_listed_is_not_there(target: str) -> None:
    assert asked_path(target) is None


@pytest.mark.hostile
@example("/v1/responses/*")  # a star is no identifier
@given(st.one_of(TRICKS, st.text(max_size=60), st.sampled_from(LISTED).flatmap(lambda path: TRICKS.map(path.__add__))))
def test_no_target_becomes_another_path(target: str) -> None:
    path = asked_path(target)
    plain, question, _ = target.partition("?")
    if path is None:
        # Python's $ also matches before a line's end, which no target has.
        assert not is_listed(plain)
    else:
        assert is_listed(path)
        assert plain.rstrip("\n") == path
        assert question or plain == target


@pytest.mark.hostile
@given(VALUE, VALUE)
def test_a_header_is_known_only_with_the_whole_key_in_its_own_case(value: str, other: str) -> None:
    (line,) = key_map({"alice": value}).splitlines()
    found = re.fullmatch(r'"~(.*)" alice;', line)
    assert found
    pattern = re.compile(found[1])
    assert pattern.search(f"Bearer {value}")
    assert bool(pattern.search(f"Bearer {other}")) == (value == other)
    for wrong in (value, f"Bearer {value}x", f"Bearer x{value}", f"Basic {value}", f"Bearer {value[:-1]}"):
        assert not pattern.search(wrong)
    if value.swapcase() != value:
        assert not pattern.search(f"Bearer {value.swapcase()}")


@pytest.mark.hostile
@given(VALUE)
def test_what_nginx_reads_of_a_key_cannot_end_its_line(value: str) -> None:
    written = key_map({"a": value}) + upstream_header(check_engine_key(value, "x"))
    assert written.count("\n") == 2
    assert written.count('"') == 4
    assert written.count("$") == 1


@pytest.mark.parametrize("value", ["short", 'x" y; "' * 5, "a" * 300, "ä" * 30, "a b" * 10])
def test_a_value_that_is_no_token_is_refused_without_being_said(value: str) -> None:
    with pytest.raises(ValueError, match="the value given for key ci") as caught:
        check_value("ci", value)
    assert value not in str(caught.value)


def test_keys_have_a_rate_of_their_own_or_the_common_one() -> None:
    assert read_keys([{"name": "a"}, {"name": "b", "rate": 0}], 600) == [Key("a", 600), Key("b", 0)]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("alice", "expected a list"),
        ([{"name": "Alice"}], "lower-case"),
        ([{"name": "../x"}], "lower-case"),
        ([{"name": "a"}, {"name": "a"}], "more than once"),
        ([{"name": "a", "rate": -1}], "the rate of key a"),
        ([{"name": "a", "rate": True}], "the rate of key a"),
        ([{"nam": "a"}], "a mapping with name"),
        (["a"], "a mapping with name"),
    ],
)
def test_what_is_no_key_is_refused(keys: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_keys(keys, 600)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"endpoint_listen": "head"}, "endpoint_listen is 'head'"),
        ({"endpoint_listen": "127.0.0.1; x"}, "endpoint_listen"),
        ({"endpoint_port": 0}, "endpoint_port is 0"),
        ({"endpoint_http_port": 443}, "both 443"),
        ({"endpoint_names": ["a b"]}, "endpoint_names has 'a b'"),
        ({"endpoint_names": "head"}, "expected a list"),
        ({"endpoint_clients": ["10.0.0.1/8"]}, "an entry that is not a network"),
        ({"endpoint_clients": ["255.255.255.255"]}, "not a client address"),
        ({"endpoint_upstream": "http://engine:8000"}, "endpoint_upstream"),
        ({"endpoint_upstream": "http://127.0.0.1:8000/v1"}, "endpoint_upstream"),
        ({"endpoint_extra_paths": ["/v1/x y"]}, "endpoint_extra_paths"),
        ({"endpoint_extra_paths": ["/.."]}, "endpoint_extra_paths"),
        ({"endpoint_body_limit": "16 MB"}, "endpoint_body_limit"),
        ({"endpoint_spool_limit": "lots"}, "endpoint_spool_limit"),
        ({"endpoint_spool_limit": "8m"}, "endpoint_spool_limit is 8m, expected at least endpoint_body_limit"),
        ({"endpoint_key_connections": 0}, "endpoint_key_connections"),
        ({"endpoint_auth_failure_rate": 0}, "endpoint_auth_failure_rate"),
        ({"endpoint_connections": 0}, "endpoint_connections"),
    ],
)
def test_what_nginx_could_not_be_told_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        configuration({**DEFAULTS, **changes})


def test_the_configuration_says_who_has_keys_so_that_a_revocation_is_a_difference() -> None:
    one = configuration({**DEFAULTS, "endpoint_keys": [{"name": "a", "rate": 0}]})
    two = configuration({**DEFAULTS, "endpoint_keys": [{"name": "a", "rate": 0}, {"name": "b", "rate": 0}]})
    assert one != two
    assert "limit_req zone=rate_" not in one
    assert one.count("{") == one.count("}")


@pytest.mark.hostile
def test_whoever_has_no_key_that_is_listed_has_none() -> None:
    text = configuration({**DEFAULTS, "endpoint_keys": [{"name": "team"}]})
    (block,) = re.findall(r"map \$http_authorization \$endpoint_key \{(.*?)\}", text, re.DOTALL)
    assert [line.split() for line in block.strip().splitlines()] == [
        ["default", '"";'],
        ["include", f"{KEY_MAP_PATH};"],
    ]


@pytest.mark.hostile
def test_only_a_key_leads_to_the_engine() -> None:
    text = configuration({**DEFAULTS, "endpoint_keys": [{"name": "team"}]})
    everything = location(text, "/")
    assert everything.split()[:6] == ["if", "($endpoint_key", "=", '"")', "{", "return"]
    assert "error_page 418 = @no_key;" in text
    assert text.count("proxy_pass") == 2, "the engine behind a key, and its health"


def test_each_rate_has_one_limit() -> None:
    keys = [{"name": "a"}, {"name": "b"}, {"name": "c", "rate": 6}]
    text = configuration({**DEFAULTS, "endpoint_keys": keys})
    assert text.count("limit_req zone=rate_600 burst=100 nodelay;") == 1
    assert text.count("limit_req zone=rate_6 burst=1 nodelay;") == 1


@pytest.mark.parametrize("name", ["default", "include", "team"])
def test_no_name_is_a_word_of_nginx(name: str) -> None:
    text = configuration({**DEFAULTS, "endpoint_keys": [{"name": name}]})
    assert f'"\\\\{name}" {name};' in text
    assert f"    {name} {name};" not in text


def test_only_named_networks_are_answered_where_there_are_any() -> None:
    assert "default 1;" in configuration(DEFAULTS)
    text = configuration({**DEFAULTS, "endpoint_clients": ["10.0.0.0/8"]})
    assert "default 0;" in text
    assert "10.0.0.0/8 1;" in text


@pytest.mark.parametrize(
    ("listen", "place"),
    [
        ("0.0.0.0", "listen 0.0.0.0:443 ssl"),
        ("::", "listen [::]:443 ipv6only=off ssl"),
        ("fd00::1", "listen [fd00::1]:443 ssl"),
    ],
)
def test_it_listens_where_it_is_told(listen: str, place: str) -> None:
    assert place in configuration({**DEFAULTS, "endpoint_listen": listen})


def test_an_engine_may_be_at_an_address_of_any_kind() -> None:
    assert check_upstream("http://[::1]:8000") == "[::1]:8000"
    assert check_upstream("http://127.0.0.1:8000/") == "127.0.0.1:8000"


def test_the_certificate_is_for_what_clients_call() -> None:
    settings = {"endpoint_listen": "10.0.0.5", "endpoint_names": ["LLM.example.org", "fd00:0::1"]}
    assert certificate_names(settings) == ["llm.example.org", "fd00::1", "10.0.0.5", "localhost", "127.0.0.1"]
    assert certificate_names({"endpoint_listen": "::", "endpoint_names": []}) == ["localhost", "127.0.0.1"]


def test_the_unit_reads_keys_anew_without_a_restart() -> None:
    unit = endpoint_unit()
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit
    assert "ProtectSystem=strict" in unit


# --- what a client may make the head hold ---------------------------------------------------------------------------

SIZE = st.tuples(st.integers(1, 999_999), st.sampled_from("kmg")).map(lambda size: f"{size[0]}{size[1]}")
BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def location(text: str, name: str) -> str:
    block, *_ = re.findall(rf"location {re.escape(name)} {{\n(.*?)\n        }}\n", text, re.DOTALL)
    return str(block)


@pytest.mark.hostile
def test_bodies_wait_on_disk_and_never_in_memory() -> None:
    text = configuration(DEFAULTS)
    assert re.findall(r"client_body_temp_path (\S+);", text) == ["/var/cache/firstlight-endpoint/client_body"]
    assert "CacheDirectory=firstlight-endpoint\n" in endpoint_unit()
    assert "proxy_request_buffering off;" in balancer("127.0.0.1", 8000, 2)


@pytest.mark.hostile
@pytest.mark.parametrize("unit", [endpoint_unit(), balancer_unit("model")])
def test_what_clients_send_is_not_taken_from_the_engine(unit: str) -> None:
    assert "MemoryMax=1G\n" in unit
    assert "OOMPolicy=continue\n" in unit  # a worker goes, not the endpoint


@pytest.mark.hostile
@given(SIZE, SIZE)
def test_all_that_wait_together_fit_into_the_limit(spool: str, body: str) -> None:
    of_spool, of_body = (int(size[:-1]) * BYTES[size[-1]] for size in (spool, body))
    if of_spool < of_body:
        with pytest.raises(ValueError, match="endpoint_spool_limit"):
            spooled_at_once(spool, body)
    else:
        assert 1 <= spooled_at_once(spool, body) <= min(65_535, of_spool // of_body)


@pytest.mark.hostile
@given(
    st.sampled_from(["", "chunked", "gzip, chunked", "x"]), st.one_of(st.just(""), st.integers(0).map(str), st.text())
)
def test_only_what_is_short_for_certain_is_not_counted(encoding: str, length: str) -> None:
    if re.search(IN_MEMORY, f"{encoding}:{length}"):
        assert not encoding
        assert length == "" or int(length) < 256 * 1024  # nginx's buffer


@pytest.mark.hostile
def test_one_key_leaves_room_for_the_others() -> None:
    alone = location(configuration(DEFAULTS), "/")
    assert "limit_conn keys 512;" in alone
    assert "limit_conn spooled 256;" in alone
    assert "limit_conn key_spooled 256;" in alone
    shared = location(configuration({**DEFAULTS, "endpoint_keys": [{"name": "a"}, {"name": "b"}]}), "/")
    assert "limit_conn key_spooled 128;" in shared


@pytest.mark.hostile
def test_whoever_has_no_key_leaves_no_body() -> None:
    health = location(configuration(DEFAULTS), "= /health")
    assert "client_max_body_size 1k;" in health
    assert "limit_conn addresses 512;" in health
