"""One file per claim of speed or isolation: `python -m bench.NAME [--json]`. What the rows mean: bench/README.md."""
