# What people type. The work is done by scripts/ and CMake; these targets only put it in order.
# Everything works offline once it was fetched. docs/setup.md says what is fetched and where it goes.

PREFIX ?= /usr/local
# Where `make install` puts files before they are packaged.
DESTDIR ?=
# The model that `make serve` runs: a name that `scripts/model list` knows.
MODEL ?= smollm2-135m
# More arguments: make serve ARGS="--port 9000", make test ARGS="unit api", make bench ARGS=…
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help build serve test test-ray test-vllm models install format lint bench report clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

build: ## install what is missing, fetch the engine, build build/wane
	@scripts/deps build
	@scripts/build release wane wane_shared wane_static wane_preload

serve: build ## build, fetch the default model, serve it; prints a curl line
	@model=$$(scripts/model get $(MODEL)) && exec build/wane serve --model "$$model" $(ARGS)

test: ## run the whole suite (ARGS="unit api": only those stages)
	@scripts/deps build test
	@scripts/test $(ARGS)

test-ray: build ## build tables on a real Ray of two nodes (fetches Ray; ARGS: pytest's)
	@scripts/build release bench_make_traces
	@tests/ray/run $(ARGS)

test-vllm: build ## the plug-ins in a real vLLM on this machine's CPU (fetches vLLM, 9 GB; ARGS: pytest's)
	@scripts/build release wane_parts rows_layer
	@tests/vllm/run $(ARGS)

models: ## fetch all four models (1.9 GB)
	@scripts/deps build
	@scripts/model get $$(scripts/model list | awk 'NR > 1 { print $$1 }') >/dev/null

install: build ## install under PREFIX (default /usr/local), below DESTDIR
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)" >build/install.log || { cat build/install.log; exit 1; }
	@echo "installed under $(DESTDIR)$(PREFIX)"

format: ## lay out the C sources with clang-format
	@scripts/deps test
	@git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format -i

lint: ## layout, house rules, static analysis
	@scripts/deps build test
	@scripts/test format house tidy

bench: build ## measure (bench/run; ARGS are passed on)
	@bench/run $(ARGS)

report: build ## measure the models that are here, make build/report.html (bench/report; ARGS: models)
	@bench/report $(ARGS)

clean: ## delete what was compiled
	@if [ -e build/build.ninja ]; then cmake --build build --target clean >/dev/null; fi
	@rm -rf build/debug build/asan build/tsan build/test

distclean: ## delete build/; the cache with engine and models stays
	@rm -rf build
