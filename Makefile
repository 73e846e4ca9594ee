# `make help` lists what there is. Go, git and make are all that is needed;
# everything fetched or built on the way stays in .cache/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
STATIC  := CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)"

# Where `make race-suite` runs, and how often.
ENGINE ?= sqlite
COUNT  ?= 1
# How many of the explored schedules are played on SQLite and real git.
REAL   ?= 100
# Arguments for `make demo`, e.g. ARGS='--once --json'.
ARGS ?=
# What `make test` tests, and how.
PKG       ?= ./...
RUN       ?=
TESTFLAGS ?=
TIMEOUT   ?= 30m
# 1: the race detector must be on; 0: off; auto: on where a C compiler is present.
RACE ?= auto

LINT_VERSION := v2.15.0
LINT         := .cache/bin/golangci-lint-$(LINT_VERSION)
LINTER       := GOLANGCI_LINT_CACHE="$(CURDIR)/.cache/golangci-lint" $(LINT)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Play the whole story on this machine; ARGS='--once' ends by itself
	@go run ./cmd/batchbot demo $(ARGS)

.PHONY: build
build: ## Build the static binary ./batchbot
	$(STATIC) -o batchbot ./cmd/batchbot

# The planner's simulator is not built with the race detector, which makes it ten times slower, so it gets a run of its own.
.PHONY: test
test: ## Run all tests on SQLite and a real MySQL (PKG=./store RUN=TestX RACE=0|1)
	@race=; cgo=$$(go env CGO_ENABLED); \
	case "$(RACE):$$cgo" in \
	  0:*) ;; \
	  *:1) race=-race ;; \
	  1:*) echo "make test: RACE=1 needs a C compiler that go can use (CGO_ENABLED=$$cgo)." \
	         "On Debian: apt-get install gcc libc6-dev" >&2; exit 1 ;; \
	esac; \
	set -x; scripts/with-mysql.sh go test $$race -count=1 -timeout $(TIMEOUT) $(if $(RUN),-run '$(RUN)') $(TESTFLAGS) $(PKG) || exit; \
	$(if $(RUN)$(filter-out ./...,$(PKG)),,[ -z "$$race" ] || go test -count=1 -run TestTargets ./bot/plan || exit; \
	EXPLORE_SCHEDULES=2000 go test -count=1 -run '^TestSchedules$$' ./bot/explore)

.PHONY: simulate
simulate: ## Run the planner on 15 queues of 100,000 changes; print what it saves, fail below its targets
	@cd bot/plan && SIMULATE=1 go test -count=1 -run TestTargets

.PHONY: explore
explore: ## Play 10,000 random schedules of three bots in memory, and 100 on SQLite and git (COUNT=n REAL=n FIRST=seed); SEED=n plays one again
	EXPLORE_SCHEDULES=$(if $(filter file,$(origin COUNT)),10000,$(COUNT)) EXPLORE_REAL=$(REAL) EXPLORE_FIRST=$(FIRST) EXPLORE_SEED=$(SEED) \
	  go test -count=1 -timeout 1h -v -run '$(if $(SEED),^TestSchedules$$,^TestSchedules)' ./bot/explore

.PHONY: mutate
mutate: ## Take each guard of the protocol away; fails when no random schedule notices (RUN=words of the guard)
	@mkdir -p .cache && go test -tags mutate -c -o .cache/mutate.test ./bot/explore
	@set -o pipefail; EXPLORE_GUARD='$(RUN)' .cache/mutate.test -test.run '^TestMutants$$' -test.timeout 1h | sed '/^PASS$$/d'

.PHONY: test-databases
test-databases: ## Run the store's tests on SQLite, a real MySQL and a real MariaDB 10.11 (RUN=TestX)
	scripts/with-mysql.sh scripts/with-mariadb.sh go test -tags mariadb -count=1 -timeout $(TIMEOUT) $(if $(RUN),-run '$(RUN)') $(TESTFLAGS) ./store

# A group of three, its primary taken away again and again: about six minutes, two of them a webhook's lease.
.PHONY: test-cluster
test-cluster: ## Run store and instances on a real MySQL group that loses its primary (Debian)
	scripts/with-cluster.sh go test -tags cluster -count=1 -timeout $(TIMEOUT) -p 1 -v -run '^TestCluster' $(TESTFLAGS) ./store ./cmd/batchbot

.PHONY: race-suite
race-suite: ## Repeat the store's race tests (ENGINE=sqlite|mysql|mariadb COUNT=n)
	@scripts/race-suite.sh '$(ENGINE)' '$(COUNT)'

.PHONY: i3
i3: ## Measure admissions beside open claims and settlements, and beside what the store avoids
	scripts/with-mysql.sh scripts/with-mariadb.sh go test -tags mariadb -run '^$$' -bench '^BenchmarkAdmission' -benchtime 1x ./store

# One compiled copy of the store per guard: five minutes at most where two cores are idle.
MUTATE  = $(if $(filter mariadb,$(ENGINE)),scripts/with-mariadb.sh,scripts/with-mysql.sh) go run ./scripts/mutate $(if $(filter mariadb,$(ENGINE)),-mariadb)
# The guards that have a run of their own, so that neither takes more than five minutes.
PLANNED := ^(train|curated|job|reminder|API)

.PHONY: mutate-store
mutate-store: ## Take each guard of the store away; fails when no test notices (RUN=PATTERN, ENGINE=mariadb)
	$(MUTATE) $(if $(RUN),-run '$(RUN)',-except '$(PLANNED)')

.PHONY: mutate-planned
mutate-planned: ## The same for trains, curated batches, jobs, reminders and API requests (ENGINE=mariadb)
	$(MUTATE) -run '$(PLANNED)'

# Both build the bot with fault points and run it as processes, beside a MySQL that they kill as well. They need mysqld on this machine, or Debian.
.PHONY: proof
proof: ## Kill the bot at each write point, and three bots and MySQL in a storm; nothing may be lost or land twice (SEED=n)
	go test -tags faultpoints -count=1 ./bot/fault
	scripts/proof.sh '^TestProof' -test.timeout 20m

.PHONY: chaos
chaos: ## Storms of 200 merge requests, and a table of who died where (COUNT=n, default 10; SEED=n)
	COUNT=$(if $(filter file,$(origin COUNT)),10,$(COUNT)) scripts/proof.sh '^TestChaos$$' -test.timeout 24h

# The suites keep the contract in `make test` as well; here by themselves, with a table of what they exercised of GitHub's. Of GitLab there is none:
# its description holds what is used and no more.
.PHONY: contract
contract: ## Hold adapters and fake hosts to GitHub's published API and our description of GitLab's; show what of GitHub's is covered
	go test -count=1 ./githost/hosttest/contract ./githost/gitlab ./scripts/contract
	rm -rf .cache/contract/seen && mkdir -p .cache/contract/seen
	CONTRACT_SEEN="$(CURDIR)/.cache/contract/seen" go test -count=1 ./githost/github ./githost/fakehost
	go run ./scripts/contract table .cache/contract/seen

.PHONY: contract-update
contract-update: ## Cut GitHub's published API anew from the pinned packages (needs npm)
	go run ./scripts/contract update

.PHONY: lint
lint: $(LINT) ## Check formatting, vet, the import directions and all other lint rules
	@unformatted=$$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 -r ls 2>/dev/null | xargs -r gofmt -l); \
	  [ -z "$$unformatted" ] || { echo "gofmt would change:" $$unformatted >&2; exit 1; }
	@sleepers=$$(git grep -l --untracked 'time\.Sleep(' -- '*_test.go' | xargs -r grep -L '"testing/synctest"'); \
	  [ -z "$$sleepers" ] || { echo "sleeps outside of testing/synctest:" $$sleepers >&2; exit 1; }
	for script in scripts/*.sh .ci/run; do bash -n "$$script" || exit 1; done
	go mod tidy -diff
	go vet ./...
	$(LINTER) run ./...
	go vet -tags faultpoints,mutate ./cmd/batchbot && go vet -tags cluster,mariadb ./store/... ./cmd/batchbot
	$(LINTER) run --build-tags faultpoints,mutate ./bot/... ./store/memory ./cmd/batchbot
	$(LINTER) run --build-tags cluster,mariadb ./store/... ./cmd/batchbot

.PHONY: fix
fix: $(LINT) ## Mend what the linters can mend by themselves
	$(LINTER) run --fix ./...

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION) (once per checkout, a few minutes)" >&2
	@mkdir -p $(@D)
	GOBIN="$(CURDIR)/$(@D)" GOFLAGS= CGO_ENABLED=0 go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv $(@D)/golangci-lint $@

.PHONY: readme-check
readme-check: ## Replay the README's console blocks in a fresh clone
	go run ./scripts/readmecheck

.PHONY: release
release: ## Build static linux binaries for amd64 and arm64 with checksums in dist/
	rm -rf dist && mkdir dist
	@for arch in amd64 arm64; do \
	  echo "linux/$$arch $(VERSION)"; \
	  GOOS=linux GOARCH=$$arch $(STATIC) -o dist/batchbot_$(VERSION)_linux_$$arch ./cmd/batchbot || exit 1; \
	done
	cd dist && sha256sum batchbot_* >SHA256SUMS && cat SHA256SUMS

.PHONY: image
image: ## Build the container image batchbot:VERSION
	docker build --build-arg VERSION=$(VERSION) --tag batchbot:$(VERSION) .

.PHONY: clean
clean: ## Remove what was built and every cache of the checkout
	rm -rf batchbot dist .cache coverage.out
