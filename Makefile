# `make` alone lists the commands. Everything is installed into .venv; nothing else on the machine is touched,
# except that `make test` installs Chromium where the machine lets it.
PYTHON ?= python3
BIN := .venv/bin
# a worker per core, up to four: each imports torch
WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 4 ? cores : 4)))
# a test that ends its process is reported once, and not started again and again
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
ROOMS := data models retrieval training labs workbench
VIEW := build/check
CHROMIUM := chromium-headless-shell chromium chromium-browser google-chrome
# what was compiled once is read again: the tests start Python hundreds of times
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run install test quick durations attack check bench sample format docs package chromium FORCE

help: ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: install ## start the app and open it in the browser
	$(BIN)/streamlit run app.py

install: .venv/installed ## make the environment

test: .venv/installed-dev chromium ## run every test (MRC_DATA=folder adds those with real data)
	$(PYTEST)

quick: .venv/installed-dev ## run the quick tests, while you change code: no browser, no pages, no torch, no fresh process
	$(PYTEST) -m "not slow"

durations: .venv/installed-dev chromium ## run every test, and record the times of files and which tests are slow
	MRC_DURATIONS=yes $(PYTEST)

attack: .venv/installed-dev ## damage files for half an hour and judge what is read (MINUTES, SEED)
	$(BIN)/python -m tests.hostile --minutes $(or $(MINUTES),30) --seed $(or $(SEED),0)

check: .venv/installed-dev $(VIEW) ## lint, format, which room may import which, and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd $(VIEW) && $(CURDIR)/$(BIN)/lint-imports --config $(CURDIR)/pyproject.toml
	cd $(VIEW) && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml

format: .venv/installed-dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-dev ## measure speed and quality (needs MRC_DATA)
	$(BIN)/python -m benchmarks

docs: .venv/installed-docs ## build the documents into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

package: .venv/installed-dev ## build wheel and sdist into dist/, and run the wheel in an environment of its own
	rm -rf dist build/smoke && mkdir -p build/smoke/empty
	$(BIN)/python -m hatchling build
	$(PYTHON) -m venv build/smoke/venv
	build/smoke/venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build/smoke/empty && ../venv/bin/python -P $(CURDIR)/tests/smoke.py

sample: .venv/installed ## make again what comes with the sample (after it, an analyzer or the packaged base has changed)
	$(BIN)/python -m mrc_workbench internal sample

# the layout of the wheel, made of links: tools that follow no `__path__` find the rooms in the package there
$(VIEW): FORCE
	@rm -rf $(VIEW)/mrc_workbench $(VIEW)/benchmarks $(VIEW)/tests && mkdir -p $(VIEW)/mrc_workbench
	@ln -s $(CURDIR)/mrc_workbench/* $(addprefix $(CURDIR)/,$(ROOMS)) $(CURDIR)/app.py $(VIEW)/mrc_workbench/
	@ln -s $(CURDIR)/benchmarks $(CURDIR)/tests $(VIEW)/

# the shell draws the same with a fifth less of the processor; another Chromium serves where it cannot be installed
chromium: .venv/installed-dev
	@if command -v chromium-headless-shell >/dev/null; then exit 0; fi; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell fonts-noto-cjk >/dev/null && exit 0; \
	fi; \
	for name in $(CHROMIUM); do if command -v $$name >/dev/null; then exit 0; fi; done; \
	$(BIN)/playwright install chromium || echo "no Chromium could be installed: browser tests are skipped"

# the package itself, too: `.venv/bin/mrc`, and `import mrc_workbench` from any folder
.venv/installed: requirements.txt requirements/milvus.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements/milvus.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

.venv/installed-dev: requirements/dev.txt requirements/onnx.txt .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/onnx.txt -r requirements/dev.txt
	@touch $@

.venv/installed-docs: requirements/docs.txt .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@
