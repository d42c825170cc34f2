# What axd is built and checked with. `make help` lists the targets.
#
# The tests need Go, make and a C compiler (the race detector links C), and no
# network but loopback. Only `make lint` and `make bench` fetch a tool, once each,
# into .cache/.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# All but the race detector's is compiled in one way, the binaries': so each package is once.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath $(GOFLAGS)
RACE    := CGO_ENABLED=1 go test -race -vet=off
PKG     ?= ./...
ATONCE   := 3 # packages tested: one of them, cmd/axd, mostly waits for its processes
PATIENCE := 10m # for the tests of one package, which may share the machine

GOLANGCI_VERSION := v2.15.0
GOLANGCI := .cache/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da
BENCHSTAT := .cache/benchstat-$(BENCHSTAT_VERSION)/benchstat
BASELINE  := internal/bench/testdata/baseline.txt
MEASURED  := .cache/bench.txt
# The parts whose speed bounds the whole; PKG=./wheel for one of them.
PARTS     := ./wheel ./fsm ./store ./raftnode ./scheduler ./rpc ./worker
MEASURE    = go test -short -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(BENCHCOUNT) -benchmem \
	$(if $(filter ./...,$(PKG)),$(PARTS),$(PKG))

FUZZTIME  ?= 10s
AXD_CHAOS_TIME ?= 40m
HOURS     ?= 8
MODELS    ?= 200
BENCH      ?= .
BENCHTIME  ?= 0.3s
BENCHCOUNT ?= 6
CROSS     := arm64 arm

.DEFAULT_GOAL := build

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/axd, static and stamped with the version
	go build -ldflags '$(LDFLAGS)' -o bin/axd ./cmd/axd

.PHONY: chaos-build
chaos-build: ## build bin/axd-chaos, whose clocks a test can turn
	go build -tags chaos -ldflags '$(LDFLAGS)' -o bin/axd-chaos ./cmd/axd

.PHONY: install
install: ## install axd into Go's bin directory
	go install -ldflags '$(LDFLAGS)' ./cmd/axd

.PHONY: test
test: build vet ## build, vet, and run all tests with the race detector (PKG=./fsm for one package)
	$(RACE) -p $(ATONCE) -timeout $(PATIENCE) $(PKG)
	$(RACE) -tags chaos ./internal/chaosclock
ifeq ($(PKG),./...)
	go test ./fsm ./scheduler
	$(MAKE) sim chaos-short AXD_SIM_HOURS=$(or $(AXD_SIM_HOURS),8)
endif

.PHONY: chaos-short
chaos-short: build ## put real processes through six kinds of fault, about a minute
	bin/axd chaos run --short --duration 1s --parallel 3 --report .cache/chaos

.PHONY: chaos
chaos: build chaos-build sim-matrix ## put real processes through every kind of fault (AXD_CHAOS_TIME=40m)
	bin/axd chaos run --servers bin/axd-chaos --duration $(AXD_CHAOS_TIME) --report .cache/chaos

.PHONY: soak
soak: build chaos-build ## do that for HOURS=8, with a new seed each hour
	set -e; for hour in $$(seq 1 $(HOURS)); do \
		bin/axd chaos run --servers bin/axd-chaos --duration 1h --report .cache/soak/$$hour; \
	done

.PHONY: sim
sim: ## live through random faults for 20 virtual hours (AXD_SIM_HOURS), schedules and workflows for half an hour, or AXD_SIM_SEED=7 for one plan, AXD_SIM_SEEDS=100 for so many
	AXD_SIM_HOURS=$(or $(AXD_SIM_HOURS),20) go test -count=1 -timeout 0 ./chaos -run '^(TestSimulation|TestThirtyMinutesOfWorkflows)$$' -v

.PHONY: sim-matrix
sim-matrix: ## live through plans of each kind of fault alone: AXD_SIM_MATRIX of each (3), AXD_SIM_TIME at most (20m)
	AXD_SIM_MATRIX=$(or $(AXD_SIM_MATRIX),3) AXD_SIM_TIME=$(or $(AXD_SIM_TIME),20m) AXD_SIM_ONWARD=1 \
		go test -count=1 -timeout 0 ./chaos -run '^TestFaultMatrix$$' -v

.PHONY: mutants
mutants: ## put the faults of internal/mutant into axd, one by one; the tests must find each (MUTANT=any-token for one)
	go run ./internal/mutant/hunt $(if $(MUTANT),-only $(MUTANT))

.PHONY: model
model: ## live through random lives of the state machine, so many as MODELS says (AXD_MODEL_SEED=7 for one again)
	AXD_MODEL_SEEDS=$(MODELS) go test -count=1 ./fsm -run '^TestWalk$$' -v

.PHONY: check
check: fmt-check vet lint build cross test ## all that CI runs

.PHONY: vet
vet: ## run go vet
	go vet $(PKG)
	go vet -tags chaos ./internal/chaosclock ./server ./worker

.PHONY: lint
lint: $(GOLANGCI) ## run golangci-lint; the first time builds it, some minutes
	$(GOLANGCI) run $(PKG)

$(GOLANGCI):
	GOBIN='$(CURDIR)/$(dir $(GOLANGCI))' GOFLAGS=-trimpath go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w $$(go list -f '{{.Dir}}' ./...)

.PHONY: fmt-check
fmt-check:
	@bad=$$(gofmt -l $$(go list -f '{{.Dir}}' ./...)); \
	if [ -n "$$bad" ]; then echo "not formatted, run 'make fmt':"; echo "$$bad"; exit 1; fi

.PHONY: cross
cross: ## build for the other processors that we ship
	set -e; for arch in $(CROSS); do \
		echo "linux/$$arch"; \
		GOOS=linux GOARCH=$$arch go build ./...; \
	done

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME (10s)
	set -e; for pkg in $$(go list $(PKG)); do \
		for name in $$(go test -run '^$$' -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: bench
bench: $(BENCHSTAT) ## benchmark the parts, compared with the stored baseline (PKG=./wheel BENCH=Add BENCHTIME=1x)
	$(MEASURE) >$(MEASURED) || { cat $(MEASURED); exit 1; }
	$(BENCHSTAT) $(wildcard $(BASELINE)) $(MEASURED)

.PHONY: bench-baseline
bench-baseline: ## benchmark the parts and make that the baseline; on an otherwise idle machine
	mkdir -p $(dir $(BASELINE))
	$(MEASURE) >$(BASELINE).new || { cat $(BASELINE).new; rm $(BASELINE).new; exit 1; }
	mv $(BASELINE).new $(BASELINE)

$(BENCHSTAT):
	GOBIN='$(CURDIR)/$(dir $(BENCHSTAT))' GOFLAGS=-trimpath go install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)

.PHONY: golden
golden: ## rewrite what the tests compare with, from what the code does now; read the difference
	go test ./fsm -run TestScripts -rewrite
	go test ./cmd/axd -run TestReference -update

.PHONY: demo
demo: ## three servers, two workers and a real ETL on this machine, with kill -9 of the leader (KEEP=1 leaves it running)
	KEEP='$(KEEP)' go run ./examples/weather/demo

.PHONY: clean
clean: ## remove what was built; .cache/, with the lint tool, stays
	rm -rf bin coverage.out
