# The verbs of this repository. `make` alone lists them.
# PORT=9000 and MODEL=name-or-path are for `make serve`, ARGS=... for test, bench, soak and crash.

PYTHON ?= python3
STARTER = smollm2-135m-instruct
LISTENER = whisper-base
EMBEDDER = all-minilm-l6-v2
VENV = .venv
BIN = $(VENV)/bin
# Tests run in so many processes; 0 is the debugger's choice.
WORKERS ?= 2

help:
	@echo 'make serve   start the server on http://127.0.0.1:8080 (PORT=9000, MODEL=name-or-path)'
	@echo 'make test    run the tests (ARGS="-k name" for some of them)'
	@echo 'make setup   what both need: $(VENV), the package, a starter model'
	@echo 'make lint    ruff and mypy'
	@echo 'make bench   compare with llama-server, which is built once into .bench/ (ten minutes)'
	@echo 'make soak    run the server under mixed load for a while and look for leaks'
	@echo 'make crash   kill a server with a disk cache 50 times, and check what the next one makes of it'
	@echo 'make docs    write docs/cli.md and docs/settings.md anew from the code'
	@echo 'make clean   remove caches and build products; make distclean removes $(VENV) and .bench too'

# An editable install leaves the modules uncompiled, and where Python may write no bytecode every start
# would compile them.
setup: $(VENV)/.installed
	@$(BIN)/python -m compileall -q src/stoker
	@$(BIN)/stoker get $(STARTER)

serve: setup
	@exec $(BIN)/stoker serve $${MODEL:+--model "$$MODEL"} $${PORT:+--port "$$PORT"}

test: setup $(VENV)/.installed-test
	-@$(BIN)/stoker get $(EMBEDDER)
	-@$(BIN)/stoker get $(LISTENER)
	STOKER_TEST_WHISPER="$${STOKER_TEST_WHISPER:-`$(BIN)/python tools/model_path.py $(LISTENER)`}" \
	STOKER_TEST_MINILM="$${STOKER_TEST_MINILM:-`$(BIN)/python tools/model_path.py $(EMBEDDER)`}" \
	STOKER_TEST_SMOLLM2="$${STOKER_TEST_SMOLLM2:-`$(BIN)/python tools/model_path.py $(STARTER)`}" \
	  $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python benchmarks/compare.py --install $(ARGS)

soak: setup
	$(BIN)/python tools/soak.py $(ARGS)

crash: setup
	$(BIN)/python tools/crash_disk_cache.py $(ARGS)

docs: $(VENV)/.installed
	$(BIN)/python tools/gen_docs.py

constraints: $(VENV)/.installed-test $(VENV)/.installed-lint
	$(BIN)/python tools/pin_constraints.py

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .schemathesis
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .bench

# Stamp files keep a second run quick; touching pyproject.toml or constraints.txt renews them.

$(VENV)/pyvenv.cfg:
	@for python in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(VENV) with `$$python --version`"; \
	    exec "$$python" -m venv $(VENV); \
	  fi; \
	done; \
	echo 'stoker needs Python 3.11 or newer with its venv module (on Debian: apt install python3-venv).' >&2; \
	echo 'Name another interpreter with: make PYTHON=/path/to/python3.12' >&2; \
	exit 1

# torch goes first and under the constraint, so that nothing else can pull in another build of it.
$(VENV)/.installed: $(VENV)/pyvenv.cfg pyproject.toml setup.py constraints.txt $(wildcard src/stoker/kernels/native/*)
	@echo 'Installing torch and stoker into $(VENV); the first time takes a minute or more.'
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	@echo 'Installing what make test needs'
	@$(BIN)/python tools/extra.py test > $(VENV)/test.txt
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement $(VENV)/test.txt
	@touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	@echo 'Installing what make lint needs'
	@$(BIN)/python tools/extra.py lint > $(VENV)/lint.txt
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement $(VENV)/lint.txt
	@touch $@

.PHONY: help setup serve test lint bench soak crash docs constraints clean distclean
