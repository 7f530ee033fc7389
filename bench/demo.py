"""The demo's figures as rows: serving and training alone, sharing without gpud, and under preempt-mix."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.report import Row, arguments, emit


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=1, help="of the arrivals")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as directory:
        command = [sys.executable, "-m", "gpud.cli.main", "demo", "--json", "--seed", str(options.seed)]
        command += ["--out", str(Path(directory) / "demo.svg")]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(text.splitlines()[-1])
    if not result["valid"]:
        print("the demo calls its own figures not valid: the machine was too busy", file=sys.stderr)
    runs = result["runs"]
    alone, shared, mix = runs["alone"], runs["shared"], runs["preempt-mix"]
    rows = [
        Row(name="alone_p50_ms", value=alone["serving_p50_ms"], unit="ms"),
        Row(name="alone_p99_ms", value=alone["serving_p99_ms"], unit="ms"),
        Row(
            name="shared_p99_ratio",
            value=shared["serving_p99_ms"] / alone["serving_p99_ms"],
            unit="× alone",
            target=2.0,
            better="higher",
        ),
        Row(
            name="preempt_mix_p50_ratio",
            value=mix["serving_p50_ms"] / alone["serving_p50_ms"],
            unit="× alone",
            target=1.15,
        ),
        Row(
            name="preempt_mix_p99_ratio",
            value=mix["serving_p99_ms"] / alone["serving_p99_ms"],
            unit="× alone",
            target=1.15,
        ),
        Row(
            name="training_of_possible",
            value=result["training_of_possible"],
            unit="ratio",
            target=0.85,
            better="higher",
        ),
        Row(name="null_contender_ratio", value=result["null_contender"], unit="× alone", target=1.05),
    ]
    device = f"simulated, profile {result['profile']}" if result["simulated"] else result["device"]
    emit("demo", device, rows, options.json)
    sys.exit(0 if result["valid"] else 1)


if __name__ == "__main__":
    main()
