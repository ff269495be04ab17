PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-slow browser notebooks wheel site bench mutants lint clean

setup: .venv/ready  ## the environment, with everything the tests need

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "leakmeter needs Python 3.11 or newer; run: make setup PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing what the tests need into .venv: a minute or more, without a word"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

demo: setup  ## a whole small audit on embedded data
	$(BIN)/leakmeter demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

test-slow: setup
	$(BIN)/pytest -m slow

browser: setup  ## the report in Chromium, where it is installed
	$(BIN)/pytest -m '' tests/report/test_browser.py

notebooks: setup  ## those of examples/, from the first cell to the last
	$(BIN)/pytest -m '' tests/examples/test_notebooks.py

wheel: setup  ## built, installed into an empty environment, and used there
	$(BIN)/pytest -m '' tests/test_package.py -k wheel

site: setup  ## the documentation, in site/
	$(BIN)/mkdocs build --strict -q

bench: setup  ## speed and memory, as ratios measured side by side
	for script in bench/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

mutants: setup  ## faults planted in what an audit's word depends on, and how many the tests notice
	$(BIN)/python tools/mutants.py

clean:
	rm -rf .venv runs site .pytest_cache .mypy_cache .ruff_cache
