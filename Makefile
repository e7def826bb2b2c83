# Commands of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# What the page is made of.
WEB := $(shell find web/src web/public web/index.html web/package-lock.json web/vite.config.ts clients/typescript/src -type f 2>/dev/null)

web/dist/index.html: $(WEB)
	cd web && npm ci --no-audit --no-fund --silent && npm run build --silent
	@touch $@ crates/turnbuckle-server/src/ui.rs # cargo does not see that the page came to be

.PHONY: web
web: web/dist/index.html ## build the page that the binary serves

.PHONY: client
client: ## write the TypeScript client again, after the HTTP API changed
	scripts/client

.PHONY: run
run: web ## build and start the product in a browser: http://127.0.0.1:7777, no key needed
	$(CARGO) run --release -q -p turnbuckle-cli -- serve

.PHONY: build
build: ## build everything in debug
	$(CARGO) build --workspace --all-targets

.PHONY: format
format: ## format the code
	$(CARGO) fmt --all

.PHONY: lint
lint: ## check format and lints; warnings are errors
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

.PHONY: test
test: lint ## everything a change must pass
	scripts/test

.PHONY: schemathesis
schemathesis: web ## feed the API what its description allows and what not; it must not break
	scripts/schemathesis

.PHONY: test-containers
test-containers: ## build the image and run what stands in deploy/ in containers
	@python=$$(scripts/python) && engine=$$(scripts/containers) && "$$python" tests/python/containers.py "$$engine"

.PHONY: doc
doc: ## the documentation of the crates, warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

.PHONY: bench
bench: ## benchmarks of engine, server and stores; QUICK=1 takes under ten minutes, PEERS=1 compares the peers, too
	bench/gate.py $(if $(QUICK),--quick) $(if $(PEERS),--peers); engine=$$?; \
	bench/server_gate.py $(if $(QUICK),--quick) && exit $$engine

.PHONY: bench-server
bench-server: ## benchmarks of server and stores alone
	bench/server_gate.py $(if $(QUICK),--quick)

.PHONY: fuzz
fuzz: ## feed mutated bytes to every decoder, EACH=60 seconds each
	scripts/fuzz

.PHONY: clean
clean: ## remove what was built
	$(CARGO) clean
	rm -rf bench/target bench/results
