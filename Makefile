# Commands of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: run
run: ## build and start the product: a chat over the desk database, no key needed
	$(CARGO) run --release -q -p turnbuckle-cli -- chat

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

.PHONY: doc
doc: ## the documentation of the crates, warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

.PHONY: bench
bench: ## benchmarks against the floor; QUICK=1 takes under five minutes, PEERS=1 compares the peers, too
	bench/gate.py $(if $(QUICK),--quick) $(if $(PEERS),--peers)

.PHONY: clean
clean: ## remove what was built
	$(CARGO) clean
	rm -rf bench/target bench/results
