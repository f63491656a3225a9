# The two commands are `make book` and `make test`; `make help` lists the rest.
# Needed: Python 3.11 to 3.13, make and git. Everything else goes into .venv.
#
#   PYTHON=/path/to/python   use this interpreter for .venv
#   TORCH_INDEX=URL          take torch from this index (a CPU-only one saves gigabytes)
#   CHAPTERS="signals/…"     only these (all but make new, remove, serve, env)
#   ARGS="-n0 --pdb"         what pytest is told (make test)
#   PART=language            what make new makes: a part, a chapter or one notebook more in it; CHAPTER=part/name and
#                            NOTEBOOK=part/chapter/name also say what make remove takes out
#   ROUNDS=20 THREADS=2      of a race (make race, receipt); BENCH=ctc only that one
#   STUDY=recovery           only this study (make study); TRIAL=--trial runs it small and records nothing
#   LOADED=--loaded          race or study although other work runs
#   PAGE=--page              the notebook without the races (make receipt)
#   HOLD="numpy==1.26.4"     with this version held (make colab)
#   PORT=8000                where the book is shown (make serve)
#   TIER=cpu|gpu|big         force a tier (make run, make book)
#   FORCE=--force            run also what the cache holds (make run, make book); remove also what is not committed
#   MINUTES=90 START=09:00   length and beginning of a workshop; PROVE=--prove runs it offline

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help book test run race study rehearse predict receipt colab workshop check new remove serve env clean distclean

VENV := .venv
PY := $(VENV)/bin/python
PRESS := $(PY) book/press
STAMP := $(VENV)/.installed
PORT ?= 8000
TIER ?= auto
MINUTES ?= 90
START ?= 09:00
PIP := $(PY) -m pip install --disable-pip-version-check

# What the environment was made from; the stamp holds a copy of it.
define RECIPE
pwd; cat requirements.txt requirements-hashed.txt pyproject.toml
endef

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

book: env ## run every notebook and build the book into _build/html; of CHAPTERS alone into _build/editions
	@$(PRESS) build $(CHAPTERS) --tier $(TIER) $(FORCE)

test: env ## run the tests, over two processes: make test CHAPTERS="signals/compression" ARGS="-n0"
	@$(PRESS) test $(CHAPTERS:%=notebooks/%) $(ARGS)

run: env ## run notebooks only: make run CHAPTERS="signals/rolling_distance"
	@$(PRESS) run $(CHAPTERS) --tier $(TIER) $(FORCE)

race: env ## run the benches beside their peers and record them: make race CHAPTERS="signals/rolling_distance"
	@$(PRESS) race $(CHAPTERS) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(THREADS),--threads $(THREADS)) $(if $(BENCH),--bench $(BENCH)) $(LOADED)

study: env ## run the declared studies, alone on the machine, and record them: make study CHAPTERS="recsys/ecosystem" STUDY=recovery
	@$(PRESS) study $(CHAPTERS) $(if $(STUDY),--study $(STUDY)) $(TRIAL) $(LOADED)

rehearse: env ## run notebooks on a pretended GPU: make rehearse CHAPTERS="signals/rolling_distance"
	@$(PRESS) rehearse $(CHAPTERS)

predict: env ## count what a GPU would do, at its sizes, into data/predictions: make predict CHAPTERS="co2_storage"
	@$(PRESS) rehearse --predict $(CHAPTERS)

receipt: env ## measure on your GPU and see what to send: make receipt CHAPTERS="signals/rolling_distance" PAGE=--page
	@$(PRESS) receipt $(CHAPTERS) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(THREADS),--threads $(THREADS)) $(if $(BENCH),--bench $(BENCH)) $(PAGE) $(LOADED)

colab: env ## run notebooks alone beside what Colab preinstalls: make colab HOLD="numpy==1.26.4"
	@$(PRESS) colab $(CHAPTERS) $(foreach package,$(HOLD),--hold $(package))

workshop: env ## one zip for a class, offline: make workshop CHAPTERS="signals/rolling_distance" MINUTES=90
	@$(PRESS) workshop $(CHAPTERS) --minutes $(MINUTES) --start $(START) $(if $(TORCH_INDEX),--index $(TORCH_INDEX)) $(PROVE)

check: env ## the gates (cards, figures, numbers, links, spelling, …): make check CHAPTERS="signals/rolling_distance"
	@$(PRESS) check $(if $(CHAPTERS),--chapters "$(CHAPTERS)")
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .

new: env ## begin what passes every gate: make new PART=language, CHAPTER=language/name or NOTEBOOK=language/name/more
	@$(PRESS) new $(or $(if $(PART),part $(PART)),$(if $(CHAPTER),chapter $(CHAPTER)),$(if $(NOTEBOOK),notebook $(NOTEBOOK)))

remove: env ## take a chapter or a notebook out of the book: make remove CHAPTER=language/name
	@$(PRESS) remove $(or $(CHAPTER),$(NOTEBOOK)) $(FORCE)

serve: env ## show the built book at http://localhost:8000 (PORT=…)
	@$(PRESS) serve --port $(PORT)

env: ## make or repair .venv (the others do this for you)
	@$(PY) -c 'import pip' >/dev/null 2>&1 || { \
	  found=; \
	  for p in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	    if "$$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; \
	    then found=$$p; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "No Python 3.11, 3.12 or 3.13 with venv found. Install one (on Debian and Ubuntu also python3-venv)," >&2; \
	    echo "or name it: make PYTHON=/path/to/python3.12 book" >&2; exit 1; \
	  fi; \
	  echo "Making .venv with $$("$$found" --version)"; \
	  rm -rf $(VENV) && "$$found" -m venv $(VENV); \
	}
	@if ! { $(RECIPE); } | cmp -s - $(STAMP); then \
	  set -e; rm -f $(STAMP); quiet=-qq; if [ -t 1 ]; then quiet=; fi; \
	  torch=$$(grep -E '^torch==' requirements.txt); \
	  echo "Installing $$torch (the largest part)"; \
	  $(PIP) $$quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$$torch"; \
	  echo "Installing the rest of requirements.txt"; \
	  $(PIP) $$quiet --no-deps --require-hashes -r requirements-hashed.txt; \
	  $(PIP) $$quiet -r requirements.txt; \
	  $(PIP) -qq --no-deps --editable .; \
	  { $(RECIPE); } > $(STAMP).new; mv $(STAMP).new $(STAMP); \
	fi

clean: ## forget executed notebooks and the built book; keep .venv, the data and the cache (REBUILT_CACHE)
	@if [ -d _build ]; then find _build -mindepth 1 -maxdepth 1 ! -name data -exec rm -rf {} +; fi
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## also remove .venv and the downloaded data
	@rm -rf _build $(VENV) *.egg-info .pytest_cache .ruff_cache .hypothesis
