"""docs/simulator.md says what of the driver API is not simulated, as the table does that the library is built from."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_list_is_that_of_the_table() -> None:
    printed = subprocess.run([ROOT / "tools/sim_missing"], stdout=subprocess.PIPE, text=True, check=True).stdout
    text = (ROOT / "docs/simulator.md").read_text()
    written = text.split("<!-- tools/sim_missing -->\n")[1].split("<!-- end -->")[0]
    assert written == printed, "run tools/sim_missing and put what it prints between the markers"
