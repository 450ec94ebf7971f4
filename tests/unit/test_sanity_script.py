# SPDX-License-Identifier: Apache-2.0
"""What scripts/sanity.py tells ansible-test to pass over."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/sanity.py"


@pytest.fixture(scope="module")
def sanity() -> ModuleType:
    spec = spec_from_file_location("sanity", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    for name, text in {
        "plugins/modules/licensed.py": "#!/usr/bin/python\n# SPDX-License-Identifier: Apache-2.0\n",
        "plugins/modules/unlicensed.py": "#!/usr/bin/python\n",
        "plugins/module_utils/shared.py": "# SPDX-License-Identifier: Apache-2.0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_only_a_plugin_under_apache_2_is_excused_from_the_gplv3(sanity: ModuleType, collection: Path) -> None:
    assert [line for line in sanity.exceptions(collection, oldest_python_found=True) if "gplv3" in line] == [
        "plugins/modules/licensed.py validate-modules:missing-gplv3-license"
    ]


@pytest.mark.parametrize(
    ("oldest_python_found", "skipped"),
    [
        (True, {"plugins/modules/licensed.py", "plugins/modules/unlicensed.py", "plugins/module_utils/shared.py"}),
        (False, set()),
    ],
)
def test_host_code_is_imported_with_the_controllers_python_only_without_the_oldest(
    sanity: ModuleType, collection: Path, oldest_python_found: bool, skipped: set[str]
) -> None:
    lines = sanity.exceptions(collection, oldest_python_found=oldest_python_found)
    assert {line.split()[0] for line in lines if "import-" in line} == skipped
