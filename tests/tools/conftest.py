"""`tools/gpu_day` is no installed package: it is found beside `tools/on_gpu`."""

import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
