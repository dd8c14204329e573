# node-lifecycle: one call deep, nothing hidden. `make help` lists what there is.

export CGO_ENABLED ?= 0
GO      ?= go
BINARY  := bin/node-lifecycle
# The tag leaves out the part of urfave/cli that generates documents: it costs every hook start-up time.
GOFLAGS_BUILD := -trimpath -tags urfave_cli_no_docs
LDFLAGS := -s -w $(if $(VERSION),-X main.buildVersion=$(VERSION))

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## static binary in bin/
	$(GO) build $(GOFLAGS_BUILD) -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/node-lifecycle

.PHONY: test
test: ## unit, property and command-line tests, with the race detector; no root needed
	LAB=off CGO_ENABLED=1 $(GO) test -race -timeout 3m ./...

.PHONY: cover
cover: ## the coverage that fsm, journal and phases are held to
	./tools/cover fsm:90 journal:90 phases:85

.PHONY: e2e
e2e: build ## scenarios on a real systemd and Docker, in the lab; needs root
	$(GO) test -v -count=1 -timeout 20m ./test/e2e
	$(GO) test -v -count=1 -timeout 10m -p 1 ./test/contract
	$(GO) test -count=1 -timeout 10m -p 1 ./internal/lab/...

.PHONY: e2e-long
e2e-long: build ## the scenarios five times over, to find what passes by luck, and all hooks killed at all points
	$(GO) test -v -count=5 -timeout 90m ./test/e2e
	E2E_LONG=1 $(GO) test -v -count=1 -timeout 60m -run TestKilledHooks ./test/e2e

.PHONY: bench
bench: ## the goals, each as a RATIO; needs root and strace
	$(GO) test -v -count=1 -timeout 10m ./test/bench

.PHONY: reliability
reliability: search hooks ## the protocol searched, hooks killed and racing; prints SUITE lines

.PHONY: search
search: ## suites MODEL, SIM and FAULT-N: the protocol searched, simulated, and every fault tried
	RELIABILITY=short $(GO) test -v -count=1 -timeout 15m -run 'TestModel|TestSim|TestFaultN' ./phases

.PHONY: hooks
hooks: ## suites KILL and RACE: hooks killed and racing, against a fake engine
	RELIABILITY=short $(GO) test -v -count=1 -timeout 15m ./test/reliability

.PHONY: reliability-long
reliability-long: ## the same with many more cases
	RELIABILITY=long $(GO) test -v -count=1 -timeout 10h -run 'TestModel|TestSim|TestFaultN' ./phases
	RELIABILITY=long $(GO) test -v -count=1 -timeout 90m ./test/reliability

.PHONY: mutants
mutants: ## break the program in the places that CI can afford; the tests must notice
	$(GO) run ./internal/mutants -cheap

.PHONY: mutants-all
mutants-all: ## break it in every place that is known
	$(GO) run ./internal/mutants

.PHONY: demo
demo: build ## the main job on a fresh machine, visibly; needs root
	./tools/demo

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

.PHONY: docs
docs: ## fail if a generated document is stale; `make generate` renews them
	$(GO) run ./internal/gendocs -check

.PHONY: generate
generate: ## write the generated documents
	$(GO) run ./internal/gendocs

.PHONY: clean
clean: ## remove what was built; the lab's cache stays (see: go run ./internal/lab/cmd/lab)
	rm -rf bin dist
