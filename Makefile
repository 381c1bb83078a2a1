# make app serves the arcade, make test runs the tests, make quick those that need neither page nor wheel nor Ray cluster; all set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: app test quick slow lint format clean

app: $(VENV)/.app
	$(BIN)/python app.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow and not arcade and not wheel and not cluster"

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint --deny-warnings

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv is missing (on Debian: apt install python3-venv)"; exit 1; }

$(VENV)/.app: requirements.txt | $(BIN)/python
	$(BIN)/python -m pip install -r requirements.txt
	touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt constraints-dev.txt | $(BIN)/python
	$(BIN)/python -m pip install -r requirements-dev.txt
	touch $@ $(VENV)/.app
