# make train   adapt on the shipped benchmark      make test    lint, types, all tests
# make parity  worst error of each parity case     make emoji   build the emoji benchmark anew
# make bench   speed and memory, side by side     make office_caltech IMAGES=folder   build it
# make compat  all tests under other Pythons      make clean   remove the virtual environments
SHELL := /bin/bash
VENV := .venv
PYTHONS := 3.10 3.11 3.12
COVERAGE := --cov --cov-report=term:skip-covered
BIN := $(VENV)/bin
SUPPORTED := import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))
INSTALL := $(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: train test lint compat parity bench emoji office_caltech clean

train: $(VENV)/.base
	$(BIN)/python ms_biaten/train.py --controls $(ARGS)

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(COVERAGE) $(ARGS)

# Each Python in an environment of its own, .venv-3.10 say; those that are not there are left out.
compat:
	@set -e; for version in $(PYTHONS); do \
	  if python$$version -c '$(SUPPORTED)' 2>/dev/null; then \
	    $(MAKE) test VENV=.venv-$$version PYTHON=python$$version COVERAGE= ARGS='$(ARGS)'; \
	  else echo "python$$version: not there"; fi; \
	done

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

emoji: $(VENV)/.dev
	$(INSTALL) --editable '.[torch,emoji]'
	$(BIN)/python torch_ref/build_emoji.py $(ARGS)

ifeq ($(strip $(IMAGES)),)
office_caltech:
	@echo "make office_caltech: name the folder with amazon, caltech, dslr and webcam: IMAGES=folder"
	@exit 2
else
office_caltech: $(VENV)/.dev
	$(INSTALL) --editable '.[torch,emoji]'
	weights=$$($(BIN)/python -m torch_ref.lite0) && \
	$(BIN)/python -m torch_ref build --benchmark office_caltech --images "$(IMAGES)" \
	  --backbone tf_efficientnet_lite0 --weights "$$weights" --resize 256 --crop 224 \
	  --optimizer sgd --steps 150 --batch 32 --views center drawn --dtype float16 \
	  --output data/office_caltech $(ARGS)
endif

parity: $(VENV)/.dev
	$(BIN)/python -m parity_tests $(ARGS)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) $(addprefix .venv-,$(PYTHONS))

$(VENV)/bin/python:
	@for python in $(PYTHON) python3.11 python3.12 python3.10 python3 python; do \
	  if $$python -c '$(SUPPORTED)' 2>/dev/null; then \
	    echo "creating $(VENV) with $$($$python --version)"; exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "No Python 3.10, 3.11 or 3.12 with venv found: MindSpore has no wheel for others."; \
	echo "Install one (Debian: apt install python3.11-venv), or name it: make PYTHON=/path/to/python"; \
	exit 1

$(VENV)/.base: setup.py constraints.txt | $(VENV)/bin/python
	@echo "installing MindSpore and ms_biaten into $(VENV) (once, about 1 GB)"
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "installing PyTorch, timm and the test tools into $(VENV) (once)"
	$(INSTALL) --editable '.[torch,dev]'
	@touch $@
