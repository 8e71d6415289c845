# Everything a fresh machine needs beside Go, git, make, a C compiler and Node
# is fetched by these targets, through Go and npm, into build/ and Go's caches.

GOLANGCI_LINT := v2.6.2
TOOLS := $(CURDIR)/build/tools
TINYGO := v0.41.1
BIN := build/agent-runner
FUZZTIME ?= 20s
MODULES ?= 10000
SEED ?= 0
KILLS ?= 200
SERVER_KILLS ?= 20
EXHAUST ?= 1000
CLUSTER_RUNS ?= 3000
# The commit whose servers work beside this version's in the cluster's test, if the clone has it.
CLUSTER_OLDER ?= $(shell git rev-parse --quiet --verify '2e12dc04^{commit}' 2>/dev/null)
# Only faults whose names contain this, such as poison; all if it is empty.
CLUSTER_FAULTS ?=
FLOOD ?= 10m
COMPOSITIONS ?= 20000
SLOW_RACES := '^Test(Console|Platform$$|AgentRefused|UploadScript|UploadRefuses|RefusedModules|LogsAre|OpenAI|AGUI|Servers)'
# Guests with a go.mod of their own, so that Extism's kit is no dependency of ours.
EXTISM_GUESTS := testdata/extism/go examples/wasm-middlewares/trim-results/extism

# The programs in bench and their packages; its guests are built for Wasm.
BENCH := ./internal/... ./figures ./agents ./agentdojo ./cluster ./history ./codec ./report ./server ./gateway

.DEFAULT_GOAL := help

.PHONY: help
help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build examples ## run an agent with the example modules, offline, on a recorded conversation
	@./$(BIN) run -f examples/demo/agent.yaml --replay examples/demo/conversation.json --messages examples/demo/earlier.json - < examples/demo/prompt.txt

.PHONY: agents
agents: build examples ## run the agents of examples/agents, offline, on recorded conversations
	@mkdir -p build/agents
	go build -o build/agents/ ./examples/agents/support/desk ./examples/agents/coding/workspace ./examples/agents/inbox/mail
	@examples/agents/run.sh

.PHONY: build
build: ## the command, as build/agent-runner
	@mkdir -p build
	go build -trimpath -o $(BIN) ./cmd/agent-runner

.PHONY: examples
examples: ## the example modules, as build/wasm/*.wasm
	go run ./internal/guestbuild/cmd ./examples/wasm-middlewares/...

# Packages whose tests nearly all start servers or generate load.
NO_UNITS := '/internal/(clusterchaos|clustersim|composition|exhaust|server|server/(signin|tenants|tokens))$$'

# Tests are linked without debug information, which takes less time, and lint vets them.
TEST := go test -vet=off -ldflags='-s -w'

.PHONY: test
test: ## all tests but the long ones
	$(TEST) ./...
	cd adapters/eino && $(TEST) ./...

.PHONY: quick
quick: ## unit tests and golden cases, without examples, toolchains, browsers and databases
	$(TEST) -short $$(go list ./abi/... ./cmd/... ./guest-sdk/... ./host/... ./internal/... ./tck/... | grep -vE $(NO_UNITS))

# Package longtest marks long tests, which only these targets run.
check race long differential compositions chaos cluster-chaos exhaust flood kills clients: export AGENT_RUNNER_LONG_TESTS = 1

.PHONY: check
check: lint phrases exported tidy generated race long ## what else must hold: lint, plain English, tidy, generated files, races, long tests

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT)
	go vet ./...
	for os in windows darwin; do GOOS=$$os go build ./cmd/... || exit 1; done # not vet: tests of the command need Linux
	cd adapters/eino && go vet ./...
	cd release && go vet ./...
	cd bench && go vet $(BENCH) && GOOS=wasip1 GOARCH=wasm go vet ./guests/...
	GOOS=wasip1 GOARCH=wasm go vet ./abi/... ./guest-sdk/... ./examples/wasm-middlewares/... ./tck/suite ./internal/composition/wasm-puppet ./internal/exhaust/wasm-glutton
	for dir in $(EXTISM_GUESTS); do (cd $$dir && GOOS=wasip1 GOARCH=wasm go vet ./...) || exit 1; done
	$< run ./...
	cd adapters/eino && $< run ./...
	cd release && $< run ./...
	cd bench && $< run $(BENCH)
	for dir in $(EXTISM_GUESTS); do (cd $$dir && GOOS=wasip1 GOARCH=wasm $< run --disable unused ./...) || exit 1; done # the host calls what they export

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT) ## format Go code: gofmt, sorted imports, lines of at most 120 columns
	$< fmt ./...

$(TOOLS)/golangci-lint-$(GOLANGCI_LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv $(TOOLS)/golangci-lint $@

.PHONY: exported
exported: ## public packages that export more than the table in docs/stability.md allows
	go run ./internal/exported

.PHONY: phrases
phrases: ## phrases that are not plain English, beyond those that internal/phrases/allowed.txt still allows
	go run ./internal/phrases

.PHONY: tidy
tidy:
	go mod tidy -diff
	cd bench && go mod tidy -diff
	cd adapters/eino && go mod tidy -diff
	cd release && go mod tidy -diff
	for dir in $(EXTISM_GUESTS); do (cd $$dir && go mod tidy -diff) || exit 1; done

.PHONY: generate
generate: ## write the generated files anew
	go generate ./...

.PHONY: generated
generated: generate
	@git diff --exit-code --stat -- . || { echo "generated files are not fresh: commit what 'make generate' writes"; exit 1; }

.PHONY: race
race: ## the concurrent packages, with the race detector
	go test -race -timeout 30m -skip '^Test(ManyRuns|Bloat)$$' ./host ./internal/agent/... ./internal/chain/... ./internal/module/... ./internal/sandbox/... ./internal/store/... ./internal/fairshare ./internal/hints/... ./internal/refcache ./internal/account ./host/model/... ./host/tool/... ./internal/gateway/... ./host/telemetry ./internal/egress ./host/agui
	go test -race -timeout 30m -skip $(SLOW_RACES) ./internal/server/... # without what compiles the engine of scripts, or needs Chromium, npm or PostgreSQL

.PHONY: long
long: ## the long tests that race does not run: loaded servers, killed processes, large generated inputs
	$(TEST) ./internal/exhaust ./internal/differential ./internal/composition ./internal/wasm
	$(TEST) -run '^Test(Chaos|SlowUploads|UploadsReadNoFile)$$' ./cmd/agent-runner
	$(TEST) -run '^TestScripts$$/^new_rust$$' ./cmd/agent-runner
	$(TEST) -run '^Test(ManyRuns|Bloat)$$' ./internal/store/durability
	$(TEST) -run '^Test(PointInTimeRecovery|BackupUnderLoad|Failover)$$' ./internal/clusterchaos
	$(TEST) -run '^TestCut$$' ./host/gateway
	$(TEST) -run '^TestConsoleInBrowser$$' ./internal/server

.PHONY: clients
clients: ## Claude Code and Codex, which npm installs into build/npm, and opencode if it is installed, behind the gateway
	$(TEST) -count 1 -v -run '^TestCodingAgents$$' ./cmd/agent-runner

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
			echo "$$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

.PHONY: hostile
hostile: ## hostile modules: the catalogue, and MODULES generated ones; SEED repeats a run
	go test -count 1 -timeout 60m -v -run '^TestGenerated$$' ./internal/hostile -args -modules $(MODULES) -seed $(SEED)
	go test -count 1 -skip '^TestGenerated$$' ./internal/hostile

.PHONY: differential
differential: ## MODULES generated modules, from SEED on, in wazero's compiler and interpreter, and with and without metering
	go test -count 1 -timeout 120m -v -run '^TestDifferential$$' ./internal/differential -args -modules $(MODULES) -seed $(SEED)
	go test -count 1 -timeout 60m -run '^TestMeterPreservesBehavior$$' ./internal/wasm -args -generated $(MODULES)

.PHONY: compositions
compositions: ## COMPOSITIONS random compositions of middlewares, from SEED on, against a model of the contract
	go test -count 1 -timeout 120m -run '^TestCompositions$$' ./internal/composition -args -compositions $(COMPOSITIONS) -seed $(SEED)

.PHONY: chaos
chaos: ## processes that run agents killed, KILLS for each kind of store; SEED repeats what is random
	AGENT_RUNNER_REQUIRE_POSTGRES=1 go test -count 1 -timeout 60m -v -run '^TestChaos$$' ./cmd/agent-runner -args -kills $(KILLS) -seed $(SEED)

.PHONY: cluster-chaos
cluster-chaos: postgres ## three servers on one database, killed, stopped, cut off and upgraded while at least CLUSTER_RUNS runs take place, for each transport of hints; needs root
	AGENT_RUNNER_REQUIRE_POSTGRES=1 go test -count 1 -timeout 120m -v -run '^TestClusterChaos$$' ./internal/clusterchaos -args -runs $(CLUSTER_RUNS) -seed $(SEED) -older '$(CLUSTER_OLDER)' -faults '$(CLUSTER_FAULTS)'

.PHONY: postgres
postgres: ## install PostgreSQL for the tests, from Debian's packages, if it is not there
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql; }

.PHONY: chromium
chromium: ## install Chromium for the console's test, from Debian's packages, if it is not there
	@command -v chromium chromium-browser google-chrome >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; }

.PHONY: toolchains
toolchains: ## install compilers of C and Rust for the SDKs' tests, from Debian's packages, if they are not there
	@command -v clang wasm-ld >/dev/null && ls /usr/lib/rustlib/wasm32-unknown-unknown >/dev/null 2>&1 && test -x /usr/bin/cargo || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq clang lld cargo rustc libstd-rust-dev-wasm32; }

.PHONY: tinygo
tinygo: build/tools/tinygo/bin/tinygo ## TinyGo for guests in Go that are small and fast, built from its sources; what uses it does without it where it is not there

build/tools/tinygo/bin/tinygo:
	internal/toolchain/tinygo.sh build/tools/tinygo $(TINYGO)

.PHONY: exhaust
exhaust: ## EXHAUST random compositions of all that a tenant can make a memory-capped server hold, from SEED on
	go test -count 1 -timeout 180m -v -run '^TestCompositions$$' ./internal/exhaust -args -compositions $(EXHAUST) -each 2s -seed $(SEED)

.PHONY: flood
flood: ## a server capped at 3 GB is flooded for FLOOD; the figures must meet their goals
	go test -count 1 -timeout 60m -v -run '^TestFlood$$' ./internal/exhaust -args -flood $(FLOOD) -memory 3221225472 -goals

.PHONY: kills
kills: ## a server of honest runs is killed SERVER_KILLS times, and a flooded one once; the honest runs must finish
	go test -count 1 -timeout 60m -v -run '^TestKill' ./internal/exhaust -args -kills $(SERVER_KILLS)

.PHONY: limits
limits: ## each limit alone switched off, which must turn its case red
	go test -count 1 -run '^TestEachLimit' ./internal/hostile

.PHONY: mutants
mutants: ## faults seeded into the loop, each of which must turn a golden case red
	go run ./internal/mutants

.PHONY: bench
bench: bench-build build examples ## docs/performance.md: against other ways to run middlewares, by history, side by side; needs npm
	cd bench && go run ./report ../build/bench ../docs/performance.md

.PHONY: bench-build
bench-build:
	@mkdir -p build/bench
	cd bench && for guest in five five-extism look codec; do \
		GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o ../build/bench/$$guest.wasm ./guests/$$guest || exit 1; \
	done
	cd bench && go build -o ../build/bench/ ./agents ./history ./codec
	@mkdir -p build/bench/langchain && cp bench/langchain/* build/bench/langchain/
	cd build/bench/langchain && npm ci --no-audit --no-fund --ignore-scripts --silent

.PHONY: bench-server
bench-server: build bench-build ## docs/platform-figures.md: the platform under load, and beside a hostile tenant
	cd bench && go build -o ../build/bench/ ./server
	./build/bench/server $(BIN) build/bench/look.wasm docs/platform-figures.md

.PHONY: bench-cluster
bench-cluster: build bench-build postgres ## docs/scale-figures.md: three servers on one PostgreSQL against one; needs Linux and root
	cd bench && go build -o ../build/bench/ ./cluster
	./build/bench/cluster $(BIN) build/bench/look.wasm docs/scale-figures.md

.PHONY: bench-gateway
bench-gateway: examples ## docs/gateway-figures.md: the time that the gateway adds to requests
	cd bench && go run ./gateway ../build/wasm ../docs/gateway-figures.md

.PHONY: bench-go
bench-go: ## benchmarks of packages, five counts each
	go test -run '^$$' -bench . -benchmem -count 5 ./host/... ./internal/... ./abi/...

.PHONY: languages
languages: toolchains tinygo ## docs/languages.md: size, fuel and time of the examples in each language
	go run ./internal/languages > build/languages.md && mv build/languages.md docs/languages.md

.PHONY: table
table: ## the table of the example middlewares in their README: hooks, fuel, grants, size
	go run ./internal/exampletable

.PHONY: bench-sandbox
bench-sandbox: ## what the sandbox costs, against the usual ways, as ratios in one run
	@mkdir -p build/bench
	cd bench && for guest in plain extism; do \
		GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o ../build/bench/$$guest.wasm ./guests/$$guest || exit 1; \
	done
	cd bench && go run ./figures ../build/bench/plain.wasm ../build/bench/extism.wasm

.PHONY: release
release: ## the files of a release of the commit HEAD, in dist/
	rm -rf dist
	cd release && go run . ../dist

.PHONY: runc
runc: ## install runc for the release's check, from Debian's packages, if it is not there
	@command -v runc >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends runc; }

.PHONY: release-check
release-check: ## a release of HEAD, built twice, verified, installed into new projects and run as a container
	cd release && go test -count 1 -timeout 60m -v .

.PHONY: clean
clean:
	rm -rf build
