# SPDX-License-Identifier: Apache-2.0
"""Damaged text never hides a fault.

The machines here have their faults on the last GPU. Whatever then happens to a text on its way (an end that is missing,
lost tabs, escapes, other columns, rubbish in between), a check that fails on the whole text does not pass on what is
left. As a text that is cut off before the last GPU is the same for a machine in good health, this also proves that half
a text is never enough.
"""

from __future__ import annotations

import functools
import random
import re

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import KINDS
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import FAIL, PASS
from hypothesis import given
from hypothesis import strategies as st

from firstlight_lab.captures import captures
from tests.unit.examples import examples, some

from .damage import FORMS, SLICE, cuts, hidden, verdicts

pytestmark = pytest.mark.slow  # every text in every way it can be damaged

ON_LAST = (
    "ecc_uncorrected:3",
    "ecc_disabled:3",
    "mig_enabled:3",
    "remap_pending:3",
    "wrong_memory:3",
    "wrong_name:3",
    "wrong_vbios:3",
    "persistence_off:3",
    "power_capped:3",
    "throttled:3",
    "pcie_degraded:3",
    "nvlink_inactive:gpu=3,links=7.12",
    "nvlink_errors:gpu=3,links=16.17",
)
OF_READINGS = {"gpu.ecc", "gpu.mig", "gpu.memory", "gpu.name", "gpu.persistence", "gpu.power_limit"}
IN_ALL = {"gpu.remapped_rows", "gpu.firmware", "gpu.throttle", "gpu.pcie", "gpu.ecc_errors", *OF_READINGS}
# Machine -> name of a text -> checks that must fail on it as it is.
FAULTY: dict[tuple[str, ...], dict[str, set[str]]] = {
    ON_LAST: {
        "query-gpu": IN_ALL,
        "smi-q": IN_ALL,
        "smi-xml": IN_ALL,
        "smi-table": {"gpu.mig", "gpu.memory", "gpu.name", "gpu.persistence", "gpu.power_limit"},
        "smi-list": {"gpu.name", "gpu.mig"},
        "nvlink": {"nvlink.links"},
        "nvlink-errors": {"nvlink.errors"},
        "topo": {"topo.pairs"},
    },
    ("ecc_uncorrected:3", "nvlink_slow:gpu=3,links=17"): {
        "smi-table": {"gpu.ecc_errors"},
        "smi-q": {"gpu.ecc_errors"},
        "nvlink": {"nvlink.speed"},
    },
    ("gpu_missing:3",): {
        name: {"gpu.count"} for name in ("query-gpu", "smi-q", "smi-xml", "smi-table", "smi-list", "topo")
    },
    ("device_handle_error:3",): {name: {"gpu.answer"} for name in ("query-gpu", "smi-q", "smi-table", "smi-list")},
    ("requires_reset:3",): {"query-gpu": {"gpu.recovery"}, "smi-q": {"gpu.recovery"}, "smi-xml": {"gpu.recovery"}},
    ("xid:gpu=3,number=79", "sxid"): {"kernel-log": {"kernel.xid", "kernel.sxid"}},
}
CASES = [(faults, name) for faults, texts in FAULTY.items() for name in texts]
# Texts of rows, each of which says by itself what it is about; a log that lost a line is still a log.
ROWS = {"query-gpu", "smi-list", "topo", "nvlink", "nvlink-errors", "smi-table"}
LOGS = {"kernel-log"}


@functools.cache
def whole(faults: tuple[str, ...], name: str) -> tuple[str, str, set[str]]:
    """The undamaged text, its kind, and the checks that fail on it."""
    one = captures(SLICE, faults)[name]
    told = verdicts(one.text, one.kind)
    failing = {check for check, found in told.items() if FAIL in found}
    return one.text, one.kind, failing


@pytest.mark.parametrize(("faults", "name"), CASES)
def test_the_whole_text_shows_its_faults(faults: tuple[str, ...], name: str) -> None:
    _, _, failing = whole(faults, name)
    assert FAULTY[faults][name] <= failing


@pytest.mark.parametrize(("faults", "name"), [case for case in CASES if case[1] not in LOGS])
def test_a_text_that_ends_early_hides_nothing(faults: tuple[str, ...], name: str) -> None:
    text, kind, failing = whole(faults, name)
    for cut in some(cuts(text), CASES.index((faults, name))):
        assert not hidden(verdicts(cut, kind), failing), f"cut after {cut[-120:]!r}"


# --- Damage that leaves every value in the text, somewhere -------------------------------------------------------


# Each case begins with another form: every so many-th of all pairs would leave out half of the forms everywhere.
PAIRS = [(*case, form) for number, case in enumerate(CASES) for form in some(list(FORMS), number)]


def test_a_share_has_every_case_and_every_form() -> None:
    assert {(faults, name) for faults, name, _ in PAIRS} == set(CASES)
    assert {form for _, _, form in PAIRS} == set(FORMS)


@pytest.mark.parametrize(("faults", "name", "form"), PAIRS)
def test_another_form_hides_nothing(faults: tuple[str, ...], name: str, form: str) -> None:
    text, kind, failing = whole(faults, name)
    # What a text is taken for when nobody says it matters as much; the long ones take too long to try both.
    for guessed in (kind, None) if len(text) < 10_000 else (kind,):
        assert not hidden(verdicts(FORMS[form](text), guessed), failing)


HARMLESS = (
    "tabs are eight spaces",
    "no escapes",
    "coloured words",
    "lines end as in Windows",
    "a heading and a status",
    "in a fence",
    "no last end of line",
)


@pytest.mark.parametrize("form", HARMLESS)
@pytest.mark.parametrize("name", sorted(FAULTY[ON_LAST]))
def test_a_harmless_form_is_understood_as_before(name: str, form: str) -> None:
    one = captures(SLICE)[name]
    assert verdicts(FORMS[form](one.text), one.kind) == verdicts(one.text, one.kind)


@examples(60)
@given(order=st.randoms(use_true_random=False), case=st.sampled_from([case for case in CASES if case[1] in ROWS]))
def test_rows_in_any_order_and_some_of_them_missing_hide_nothing(
    order: random.Random, case: tuple[tuple[str, ...], str]
) -> None:
    text, kind, failing = whole(*case)
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if order.random() < 0.8]
    told = verdicts("".join(kept), kind)
    # A table without one block is that of a machine with a GPU less, and this is said.
    if case[1] != "smi-table" or FAIL not in told["gpu.count"]:
        assert not hidden(told, failing)
    if case[1] in ("query-gpu", "smi-list", "topo"):
        first, rest = lines[:1], lines[1:]
        order.shuffle(rest)
        assert not hidden(verdicts("".join(first + rest), kind), failing)


@examples(60)
@given(order=st.randoms(use_true_random=False))
def test_columns_in_any_order_are_the_same_columns(order: random.Random) -> None:
    for faults in ((), ON_LAST):
        text = captures(SLICE, faults)["query-gpu"].text
        rows = [line.split(", ") for line in text.splitlines()]
        columns = list(range(len(rows[0])))
        order.shuffle(columns)
        shuffled = "".join(", ".join(row[column] for column in columns) + "\n" for row in rows)
        assert verdicts(shuffled, "query-gpu") == verdicts(text, "query-gpu")


@examples(40)
@given(order=st.randoms(use_true_random=False))
def test_the_columns_of_the_matrix_are_found_by_their_heading(order: random.Random) -> None:
    for faults in ((), ON_LAST):
        text = captures(SLICE, faults)["topo"].text
        matrix, legend = text.split("\n\n", 1)
        rows = [re.sub(r"\x1b\[\d*m", "", line).split("\t") for line in matrix.splitlines()]
        columns = list(range(1, 1 + 4 + 4))
        order.shuffle(columns)
        rows = [[row[0], *(row[column] for column in columns), *row[9:]] for row in rows]
        shuffled = "".join("\t".join(row) + "\n" for row in rows) + "\n" + legend
        assert not hidden(verdicts(shuffled, "topo"), {"topo.pairs"} if faults else set())
        assert verdicts(shuffled, "topo")["topo.pairs"] == ({FAIL} if faults else {PASS})


@examples(60)
@given(order=st.randoms(use_true_random=False))
def test_cells_that_are_missing_hide_nothing(order: random.Random) -> None:
    text, kind, failing = whole(ON_LAST, "query-gpu")
    rows = [line.split(", ") for line in text.splitlines()]
    row = order.randrange(len(rows))
    del rows[row][order.randrange(len(rows[row]))]
    damaged = "".join(", ".join(cells) + "\n" for cells in rows)
    assert not hidden(verdicts(damaged, kind), failing)
    text, kind, failing = whole(ON_LAST, "topo")
    rows = [line.split("\t") for line in text.splitlines()]
    row = order.randrange(5)
    del rows[row][order.randrange(len(rows[row]))]
    assert not hidden(verdicts("".join("\t".join(cells) + "\n" for cells in rows), kind), failing)


def test_a_row_in_two_pieces_is_not_two_gpus() -> None:
    text, kind, failing = whole(("gpu_missing:3",), "query-gpu")
    start = text.index("\n1, ") + 1
    for at in range(start + 1, text.index("\n2, ") - 1):
        assert not hidden(verdicts(f"{text[:at]}\n{text[at:]}", kind), failing), text[start:at]


# Anything but what a value consists of: a figure in the place of another is another value, and nobody can tell.
RUBBISH = st.text(st.characters(exclude_categories=("Nd", "Nl", "No", "Cs")), min_size=1, max_size=40)


@given(
    case=st.sampled_from([case for case in CASES if case[1] not in LOGS]),
    rubbish=RUBBISH,
    place=st.floats(0, 1),
    instead=st.booleans(),
)
def test_rubbish_hides_nothing(case: tuple[tuple[str, ...], str], rubbish: str, place: float, instead: bool) -> None:
    text, kind, failing = whole(*case)
    at = int(place * len(text))
    damaged = text[:at] + rubbish + text[at + (len(rubbish) if instead else 0) :]
    # A figure that lost some of its digits is another figure, too.
    if instead and re.search(r"\d", text[max(0, at - 1) : at + len(rubbish) + 1]):
        damaged = text[:at] + rubbish + text[at:]
    assert not hidden(verdicts(damaged, kind), failing)


@given(text=st.text(max_size=400), kind=st.sampled_from([*KINDS, None]))
def test_rubbish_alone_never_passes(text: str, kind: str | None) -> None:
    assert not {name for name, told in verdicts(text, kind).items() if told & {PASS}}


WORDS = sorted({word for one in captures(SLICE, ON_LAST).values() for word in one.text.split()[:200]})


@given(
    words=st.lists(st.sampled_from(WORDS), max_size=60),
    breaks=st.randoms(use_true_random=False),
    kind=st.sampled_from([*KINDS, None]),
)
def test_words_of_the_tools_in_no_order_break_nothing(
    words: list[str], breaks: random.Random, kind: str | None
) -> None:
    text = "".join(word + breaks.choice((" ", "\t", "\n", ", ", "")) for word in words)
    verdicts(text, kind)
