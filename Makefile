# Every target sets itself up: Python 3.11+ and make are all that a machine needs beforehand.
# These environments live in the checkout and are updated when pyproject.toml, setup.py or the C sources change:
#   .venv          what generates, reads, tests and lints
#   .venv-interop  the same beside TensorFlow and TFDS, to open with them what is generated here
#   .venv-adapters PyTorch, Grain and JAX, to read and train with them
#   .venv-mosaicml, .venv-seqio  MosaicML Streaming and SeqIO, to compare with them
#   .venv-browser  what drives a browser, axe-core and mlcroissant, to test the explorer and the site
#   .venv-wheel    the package as a user installs it, made anew for each test of a wheel
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Set PYTHON=/path/to/python to choose the interpreter; otherwise the first that is new enough.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
DATA := build/quickstart
BIN := .venv/bin
INTEROP := .venv-interop/bin
ADAPTERS := .venv-adapters/bin
SOURCES := pyproject.toml setup.py $(wildcard beam_datasets/native/*.[ch]) beam_datasets/native/_core.pyi
PYTEST_ARGS ?=
# Where it is set, each of the hundreds of processes that tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
BENCH_ARGS ?= --rows 20000 --repeat 1

.PHONY: help quickstart test test-all test-slow test-wheel wheels test-interop test-adapters test-coming-from test-browser screenshots flink test-flink test-spark test-kubernetes test-prism sanitize lint format docs bench clean

help:
	@echo 'make quickstart    generate a dataset, look at it, read it back, take a part of it (in $(DATA))'
	@echo 'make test          ruff, mypy and the tests, in less than 5 minutes'
	@echo 'make test-all      what `make test` leaves out: slow tests, sanitizers, Flink, Prism, TFDS, PyTorch'
	@echo 'make wheels        builds the sdist and the wheel for this machine (in dist)'
	@echo 'make test-wheel    runs the core of the tests with that wheel in an environment of its own'
	@echo 'make test-interop  the real TFDS opens what is generated here (installs TensorFlow)'
	@echo 'make test-adapters real PyTorch, Grain and tf.data read through the adapters (installs them)'
	@echo 'make test-coming-from  runs the pages for users of MosaicML Streaming and SeqIO with both (installs them)'
	@echo 'make test-browser  the explorer and the site in Chromium, which root gets by apt-get; make screenshots'
	@echo 'make flink         generates and materializes on a Flink cluster on this machine (needs Java and Maven)'
	@echo 'make test-flink    tests on such a cluster'
	@echo 'make test-spark    tests on a Spark cluster on this machine (needs Java and Maven)'
	@echo 'make test-kubernetes  a real API server checks the manifests (needs Go, Java and Maven)'
	@echo 'make test-prism    tests on Prism, the runner of Beam in Go (needs Go)'
	@echo 'make sanitize      tests the native module, built with AddressSanitizer (needs GCC)'
	@echo 'make lint          ruff, codespell and mypy alone;  make format  lets ruff rewrite'
	@echo 'make docs          builds the documentation into build/site; a broken link is an error'
	@echo 'make bench         measures generating and reading, a short look (BENCH_ARGS: see docs/explanation/performance.md)'
	@echo 'make clean         removes environments, caches and $(DATA)'

# $(call environment,DIRECTORY,REQUIREMENTS): the stamp is written last, so an interrupted set-up is continued.
# uv installs in a quarter of pip's time. Where uv cannot be installed, or finds no packages, pip does it.
define environment
	@test -n '$(PYTHON)' || { echo 'No Python 3.11 or newer found; set PYTHON=/path/to/python.' >&2; exit 1; }
	@test -x $(1)/bin/pip || { echo 'Making $(1) with $(PYTHON)'; $(PYTHON) -m venv --clear $(1); } || \
		{ echo 'Making $(1) failed: $(PYTHON) lacks venv (Debian and Ubuntu: apt install python3-venv).' >&2; exit 1; }
	@echo "Installing $(2) into $(1); the first time takes up to a few minutes"
	@test -x $(1)/bin/uv || $(1)/bin/python -m pip install --quiet --disable-pip-version-check uv || true
	@$(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2) || \
		{ echo 'uv failed, so pip installs'; $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); }
	@touch $@
endef

# What the quickstart needs; .ready adds all that tests need.
.venv/.quickstart: $(SOURCES)
	$(call environment,.venv,-e '.[beam]')

.venv/.ready: $(SOURCES)
	$(call environment,.venv,-e '.[dev]')
	@touch .venv/.quickstart

.venv-interop/.ready: $(SOURCES)
	$(call environment,.venv-interop,-e '.[interop]')

.venv-adapters/.ready: $(SOURCES)
	$(call environment,.venv-adapters,-e '.[adapters]')

.venv-mosaicml/.ready: $(SOURCES)
	$(call environment,.venv-mosaicml,-e '.[mosaicml]')

.venv-seqio/.ready: $(SOURCES)
	$(call environment,.venv-seqio,-e '.[seqio]')

.venv-browser/.ready: $(SOURCES)
	$(call environment,.venv-browser,-e '.[browser]')

quickstart: .venv/.quickstart
	@rm -rf $(DATA)
	$(BIN)/beam-datasets build stdlib_source --data_dir $(DATA)
	$(BIN)/beam-datasets info stdlib_source --data_dir $(DATA)
	$(BIN)/beam-datasets head stdlib_source --split 'train[:10%]' --count 2 --data_dir $(DATA)
	$(BIN)/beam-datasets materialize stdlib_source --data_dir $(DATA) --to stdlib_few \
		--split 'train=train[:10%]' --split 'validation=test[:50%]'
	$(BIN)/beam-datasets info stdlib_few --data_dir $(DATA)
	@echo "In a browser: $(BIN)/pip install -e '.[explore]' && $(BIN)/beam-datasets explore $(DATA)"

# Both run even if one fails. Lint runs beside pytest, so what it prints comes last. Without the collection before,
# each of pytest's processes would compile all tests.
test: .venv/.ready
	@mkdir -p build; $(MAKE) --no-print-directory --keep-going lint >build/lint.log 2>&1 & lint=$$!; failed=0; \
	$(BIN)/pytest --collect-only -q >/dev/null || true; \
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder -m 'not slow' $(PYTEST_ARGS) || failed=1; \
	wait $$lint || failed=1; cat build/lint.log; exit $$failed

# Property tests draw 40 cases each here, and 20 in `make test`.
# More processes than cores: many tests wait for servers and for processes that they kill.
FULL := --hypothesis-profile=full
test-slow: .venv/.ready
	$(BIN)/pytest -n 3 --dist worksteal -m 'slow or hypothesis' $(FULL) $(PYTEST_ARGS)

# Two at a time: one installs an environment or waits for a cluster while the other one computes. All run even if one
# fails; what each prints comes when it ends.
test-all:
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target \
		test-slow test-interop test-flink test-kubernetes test-prism test-adapters test-browser test-wheel sanitize

# On Linux the wheel gets the tag of the oldest manylinux that it runs on. cibuildwheel (pyproject.toml) builds the others.
wheels: .venv/.ready
	@rm -rf dist build/wheels
	$(BIN)/python -m build --outdir build/wheels
	@mkdir -p dist; cp build/wheels/*.tar.gz dist
	@if [ "$$(uname)" = Linux ]; then \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheels/*.whl; \
	else cp build/wheels/*.whl dist; fi

WHEEL = "$$(ls dist/*.whl)[beam,image,heif,audio,remote,files,frames,export,where,download,test]"
.venv-wheel/.ready:
	$(call environment,.venv-wheel,$(WHEEL))

# The tests are copied, so that the checkout is not imported. They are those of the native module, and of what reads by it.
test-wheel: wheels
	@rm -rf .venv-wheel build/wheel-tests
	@$(MAKE) --no-print-directory .venv-wheel/.ready
	@mkdir -p build/wheel-tests; cp -R tests README.md pyproject.toml build/wheel-tests
	cd build/wheel-tests; $(CURDIR)/.venv-wheel/bin/pytest -q -n 2 -m 'not slow' \
		tests/native tests/formats tests/features/test_roundtrip.py tests/reading/test_dataset.py $(PYTEST_ARGS)

test-interop: .venv-interop/.ready
	BEAM_DATASETS_INTEROP=required $(INTEROP)/pytest tests/interop $(PYTEST_ARGS)

# The pages on other libraries are tested in a process of their own: they fork workers of a DataLoader, and JAX, which the tests of
# the adapters import, has threads that may hold a lock at that moment.
FRAMEWORKS := torch accelerate lightning transformers torchdata grain jax datasets webdataset
test-adapters: .venv-adapters/.ready .venv-interop/.ready
	BEAM_DATASETS_ADAPTERS='$(FRAMEWORKS)' $(ADAPTERS)/pytest tests/adapters $(FULL) $(PYTEST_ARGS)
	BEAM_DATASETS_ADAPTERS='$(FRAMEWORKS)' $(ADAPTERS)/pytest tests/coming_from $(FULL) $(PYTEST_ARGS)
	BEAM_DATASETS_ADAPTERS='tensorflow tensorflow_datasets' $(INTEROP)/pytest tests/adapters tests/coming_from $(FULL) $(PYTEST_ARGS)

# Each needs an environment of its own, and minutes to install it, so `make test-all` leaves them out.
test-coming-from: .venv-mosaicml/.ready .venv-seqio/.ready
	BEAM_DATASETS_ADAPTERS='streaming' .venv-mosaicml/bin/pytest tests/coming_from $(FULL) $(PYTEST_ARGS)
	BEAM_DATASETS_ADAPTERS='seqio' .venv-seqio/bin/pytest tests/coming_from $(FULL) $(PYTEST_ARGS)

# `make screenshots` also writes those of docs/.
CHROMIUM := command -v chromium || command -v chromium-browser || command -v google-chrome
test-browser: .venv-browser/.ready
	@$(CHROMIUM) >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		{ apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; }; } || \
		{ echo 'There is no Chromium; install it.' >&2; exit 1; }
	BEAM_DATASETS_BROWSER=required .venv-browser/bin/pytest tests/browser $(PYTEST_ARGS)

screenshots:
	@BEAM_DATASETS_SCREENSHOTS=write $(MAKE) --no-print-directory test-browser PYTEST_ARGS='-k screenshots'

# Downloads are kept in ~/.cache/beam_datasets/flink; the cluster ends with the command.
FLINK := build/flink
flink: .venv/.ready
	@rm -rf $(FLINK)/data
	@PATH="$$PWD/$(BIN):$$PATH" python -m tests.engines.flink_cluster $(FLINK) bash -euxc ' \
	beam-datasets build stdlib_source --data_dir $(FLINK)/data $$(cat $(FLINK)/options); \
	beam-datasets materialize stdlib_source --data_dir $(FLINK)/data --to stdlib_few \
		--split "train=train[:10%]" $$(cat $(FLINK)/options); \
	beam-datasets info stdlib_few --data_dir $(FLINK)/data'

test-flink: .venv/.ready
	BEAM_DATASETS_FLINK=required $(BIN)/pytest tests/engines -k flink $(PYTEST_ARGS)

# Downloads are kept in ~/.cache/beam_datasets/spark. It takes minutes, as each job starts its executors, so
# `make test-all` leaves it out.
test-spark: .venv/.ready
	BEAM_DATASETS_SPARK=required $(BIN)/pytest tests/engines/test_spark.py $(PYTEST_ARGS)

# What this builds is kept in ~/.cache/beam_datasets too.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/beam_datasets
PRISM_PACKAGE := github.com/apache/beam/sdks/v2/go/cmd/prism
test-prism: .venv/.ready
	@command -v go >/dev/null || { echo 'There is no command go; https://go.dev/doc/install' >&2; exit 1; }
	@version=v$$($(BIN)/python -m pip show apache-beam | sed -n 's/^Version: //p'); \
	echo "Building Prism $$version; the first time takes minutes"; \
	GOBIN=$(CACHE)/prism/$$version go install $(PRISM_PACKAGE)@$$version; \
	BEAM_DATASETS_PRISM=$(CACHE)/prism/$$version/prism $(BIN)/pytest tests/engines -k prism $(PYTEST_ARGS)

# The server is built once for each version of its modules.
APISERVER = $(CACHE)/kubernetes/$$(cat tests/engines/apiserver/go.sum tests/engines/apiserver/main.go | sha256sum | cut -c1-12)
test-kubernetes: .venv/.ready
	@command -v go >/dev/null || { echo 'There is no command go; https://go.dev/doc/install' >&2; exit 1; }
	@server="$(APISERVER)"; test -x "$$server" || { echo 'Building the API server; the first time takes minutes'; \
		cd tests/engines/apiserver; go build -ldflags '-s -w' -o "$$server" .; }; \
	BEAM_DATASETS_APISERVER="$$server" $(CURDIR)/$(BIN)/pytest $(CURDIR)/tests/engines/test_kubernetes.py $(PYTEST_ARGS)

sanitize: .venv/.ready
	PYTHON=$(BIN)/python CC='$(CC)' bash tests/native/sanitize.sh -q -n 2 $(PYTEST_ARGS)

lint: ruff codespell mypy

.PHONY: ruff codespell mypy
ruff: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

codespell: .venv/.ready
	$(BIN)/codespell

mypy: .venv/.ready
	$(BIN)/mypy

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Missing docstrings are found by the tests, broken links and anchors by mkdocs.
docs: .venv/.ready
	$(BIN)/pytest -q tests/test_docs.py -k 'docstrings or public_name or links or index or pages_that_code'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.ready
	$(BIN)/python tests/benchmarks/run.py generate read $(BENCH_ARGS)

clean:
	rm -rf .venv .venv-interop .venv-adapters .venv-browser .venv-mosaicml .venv-seqio .venv-wheel build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
