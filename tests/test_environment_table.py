"""Every environment variable is in one table, tbl/env.h, and nowhere else."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = re.findall(r'^ENV\("(GPUD_\w+)"', (ROOT / "hooks-native/tbl/env.h").read_text(), re.M)


def test_c_sources_read_only_what_the_table_names() -> None:
    sources = [path for path in (ROOT / "hooks-native").rglob("*.c") if "tests" not in path.parts]
    read = {name for path in sources for name in re.findall(r'"(GPUD_[A-Z_]+)"', path.read_text())}
    assert "GPUD_DISABLE" in read
    assert read <= set(TABLE)


def test_every_variable_is_documented() -> None:
    documented = (ROOT / "docs/environment.md").read_text()
    assert [name for name in TABLE if name not in documented] == []
