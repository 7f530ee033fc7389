# make demo   two real CUDA programs on one (simulated) GPU: the main job
# make test   the whole test suite
# make build  .venv with everything in it (the others do this first)
# make lint   ruff, mypy, import-linter, symbol check
# make bench  every measurement in bench/
# make native-test   C tests; under AddressSanitizer and UBSan: make native-test SANITIZE=1
.PHONY: demo test build lint bench native-test clean
.DELETE_ON_ERROR:

PYTHON ?= python3
# Many tests wait for programs of theirs, so there may be more at a time than processors.
WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
BENCHES := $(patsubst bench/%.py,%,$(shell grep -l __main__ bench/*.py))
NATIVE_SOURCES := gpud/cli/gpud.sh gpud/policies/grammar.lark gpud/policies/syntax/make_tables.py $(shell find hooks-native gpud/hooks tools -name '*.[chS]' -o -name 'meson.build' -o -name '*.toml' -o -name 'build_*.py' 2>/dev/null)

demo: build
	$(BIN)/gpud demo

test: build native-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

build: $(VENV)/.built

$(VENV)/.built: pyproject.toml meson.build meson.options gpud/__init__.py $(NATIVE_SOURCES)
	@PYTHON="$(PYTHON)" tools/build "$(VENV)"
	@touch $@

lint: build
	@tools/lint

native-test: build
	@tools/native_test $(if $(SANITIZE),sanitize,plain)

bench: native-test
	@failed=; for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m bench.$$name --json || failed="$$failed $$name"; done; \
	[ -z "$$failed" ] || { echo "make bench: not valid or failed:$$failed" >&2; exit 1; }

clean:
	rm -rf $(VENV) build gpud/_native gpud/hooks/_pages.*.so gpud/policies/syntax/tables.json
