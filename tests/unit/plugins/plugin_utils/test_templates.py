# SPDX-License-Identifier: Apache-2.0
"""Templates of the roles, rendered on the controller."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils import templates
from jinja2 import UndefinedError

ROLES = Path(__file__).resolve().parents[4] / "roles"


@pytest.fixture
def role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A role with one unit as its template."""
    directory = tmp_path / "some" / "templates"
    directory.mkdir(parents=True)
    (directory / "a.service.j2").write_text(
        "[Service]\n{# why #}\n{% if user %}\nUser={{ user }}\n{% endif %}\nExecStart={{ argv | command }}\n"
        "Environment={{ 'A=' ~ user | setting }}\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(templates, "ROLES", tmp_path)
    monkeypatch.setattr(templates, "_environment", templates._environment.__wrapped__)
    return "some"


def test_blocks_and_comments_leave_no_line_and_arguments_are_quoted(role: str) -> None:
    text = templates.render(role, "a.service", user="", argv=["/bin/echo", "100%", "a b", "$HOME"])
    assert text == ('[Service]\nExecStart=/bin/echo \\\n    100%% \\\n    "a b" \\\n    $$HOME\nEnvironment=A=""\n')
    assert "\nUser=$a%%\n" not in templates.render(role, "a.service", user="$a%", argv=["x"])
    assert templates.render(role, "a.service", user="$a%", argv=["x"]).endswith("Environment=A=$a%%\n")


@pytest.mark.hostile
@pytest.mark.parametrize("forged", ["a\nExecStart=/bin/evil", "a\rb", "a\x00b", "a \\\nb\n"])
def test_no_value_makes_a_line_of_its_own(role: str, forged: str) -> None:
    with pytest.raises(ValueError, match="contains a line break, expected one line: remove it"):
        templates.render(role, "a.service", user=forged, argv=["x"])


def test_what_a_template_is_not_given_is_an_error(role: str) -> None:
    with pytest.raises(UndefinedError, match="'argv' is undefined"):
        templates.render(role, "a.service", user="x")


@pytest.mark.parametrize(
    "path", sorted(ROLES.glob("*/templates/*.j2")), ids=lambda path: f"{path.parts[-3]}-{path.stem}"
)
def test_every_template_compiles_and_no_line_of_it_ends_in_blanks(path: Path) -> None:
    templates._environment().get_template(path.relative_to(ROLES).as_posix())
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
