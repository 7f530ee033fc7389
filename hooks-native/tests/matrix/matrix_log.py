"""matrix_log.py PROGRAM HOOK PTX [ARGUMENT …]: runs the matrix on a simulated node of its own, with this hook.

What the program says that it launched must be what the device log says that ran: each kernel once.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    program, hook, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="gpud-test-") as folder:
        log = Path(folder) / "log"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUD_SIM_")} | {
            "LD_PRELOAD": hook,
            "GPUD_SIM_NODE": f"test-matrix-{os.getpid()}",
            "GPUD_SIM_PROFILE": "test-small",
            "GPUD_SIM_TIME_SCALE": "0.1",
            "GPUD_SIM_DEVICES": "2",
            "GPUD_SIM_CACHE": folder,
            "GPUD_SIM_LOG": str(log),
            "GPUD_SIM_PYTHON": sys.executable,
            "GPUD_RUNTIME_DIR": folder,
        }
        done = subprocess.run([program, *arguments], env=environment, stdout=subprocess.PIPE, text=True, timeout=100)
        print(done.stdout, end="")
        assert done.returncode == 0, f"exit {done.returncode}"
        said = re.search(r"kernels (\d+)$", done.stdout)
        assert said, "the program does not say what it launched"
        deadline = time.monotonic() + 20
        while '"type":"end"' not in (text := log.read_text()):
            assert time.monotonic() < deadline, "the device process does not end"
            time.sleep(0.01)
    lines = [json.loads(line) for line in text.splitlines()]
    ran = [line for line in lines if line["type"] == "kernel"]
    assert {line["name"] for line in ran} == {"add_all"}
    assert len(ran) == int(said[1]) > 0, f"{len(ran)} kernels ran, {said[1]} were launched"
    assert len({(line["queue"], line["ticket"]) for line in ran}) == len(ran), "one of them ran twice"
    assert not any(line.get("dropped") for line in ran)


main()
