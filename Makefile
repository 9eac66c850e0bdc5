# Everything that is done with this repository on one machine. `make` alone lists it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: help install build up down status test test-host test-chaos test-virtual-host test-console deb test-deb lint check clippy bench bench-build bench-login bench-placement bench-edge bench-get \
  bench-agent bench-creates bench-audit bench-watches bench-terminal bench-fleet docs sdk

PROGRAMS := --workspace --bins --exclude gpuaas-load-tests
# How the measured programs are built: `make bench-get PROFILE=dev` tries a measurement with a development build.
PROFILE := measure
MEASURE := target/$(patsubst dev,debug,$(PROFILE))
SCRIPTS := $(shell git ls-files '*.sh' .ci/run)

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: ## install what this machine lacks
	@deploy/install.sh

build: install ## build the console and every program
	@deploy/build-console.sh
	@cargo build $(PROGRAMS)

up: build ## start everything below .run, with a first slice; again: change nothing. HOSTS=2: with two lab hosts
	@target/debug/gpuaas-dev up --hosts $(or $(HOSTS),1)

down: ## end everything that `make up` started; the data stays
	@target/debug/gpuaas-dev down

status: ## show parts, processes, addresses, memory, health
	@target/debug/gpuaas-dev status

test: build ## the tests of every day: all but VMs, and one VM from request to proven-empty disk
	@deploy/test.sh quick

test-host: build ## every other test with a real VM, on one lab host, the console in Chromium too
	@deploy/test.sh host

test-chaos: build ## for a night or a release: a kill at every step with VMs, long random runs, the release build
	@deploy/test.sh chaos

test-virtual-host: build ## the agent's package on a virtual slice host with IOMMU, GPUs, NVMe and SR-IOV, from installation to a slice
	@deploy/virtual-host/test.sh

test-console: build ## use the console in a real Chromium, on a stack of its own
	@deploy/test-console.sh

lint: check clippy ## formatting, contracts, scripts, console, generated files, clippy

check: build ## all of lint but clippy: cheap once everything is built
	cargo fmt --all --check
	@! grep -n 'debug-assertions' Cargo.toml .cargo/config.toml # kill points are in development builds only
	buf lint proto
	proto/breaking.sh
	shellcheck $(SCRIPTS)
	shellcheck -s dash deploy/lab/guest/init deploy/virtual-host/root/usr/local/sbin/fabric-drivers deploy/deb/postinst deploy/deb/postrm deploy/deb/preinst deploy/deb/prerm deploy/deb/as-service.sh deploy/deb/update.sh
	deploy/node-libraries.sh
	cd clients/console && npm run --silent check
	deploy/sdk.sh check
	target/debug/gpuaas-docs traceability --check
	target/debug/gpuaas-docs reference --check
	target/debug/gpuaas-docs links --check
	target/debug/gpuaas-gateway openapi | diff -u docs/reference/openapi.json -
	target/debug/gpuaas-gateway asyncapi | diff -u docs/reference/asyncapi.json -

clippy: build ## clippy on everything
	cargo clippy --quiet --workspace --all-targets -- -D warnings

deb: install ## build the agent's Debian package below target/deb
	@deploy/deb/build.sh target/deb

test-deb: install ## build it, look into it, and install it in a folder that plays a host
	@deploy/deb/test.sh

bench: bench-build ## run the benchmarks: pure pieces, then first login next to a plain script
	@cargo bench --quiet --profile $(PROFILE) -p gpuaas-load-tests --bench pure
	@$(MAKE) --no-print-directory bench-login

bench-build: install ## build what is measured, and what measures, once
	@deploy/build-console.sh
	@cargo build --profile $(PROFILE) --workspace --bins

bench-login: bench-build ## from a request to the first login, next to a plain script; memory at rest
	@$(MEASURE)/first_login

bench-agent: bench-build ## clones, launches at once on one host, the agent at rest, its comparison, and a provision next to a plain script
	@$(MEASURE)/agent

bench-creates: install ## 1 and 32 launches at once on a host without guests, from request to active
	@cargo bench --quiet --profile $(PROFILE) -p gpuaas-allocation --bench creates

bench-audit: bench-build ## what the audit trail costs a call that changes something
	@$(MEASURE)/audit

bench-placement: bench-build ## reservations next to pgbench, and as the fleet grows to 10,000 nodes
	@$(MEASURE)/placement

bench-edge: bench-build ## what an idle terminal costs, next to Envoy; installs Envoy below target/envoy
	@$(MEASURE)/sessions

bench-get: bench-build ## a GET through the gateway with each kind of credential, next to gRPC and to Envoy's transcoder
	@$(MEASURE)/get

bench-watches: bench-build ## memory and delay of 2,000 watch streams, next to Envoy's transcoder
	@ulimit -n 8192 && $(MEASURE)/watches

bench-terminal: bench-build ## output and echo of a terminal, next to ssh
	@$(MEASURE)/terminal

bench-fleet: bench-build ## 5,000 hosts against one inventory: until ready, at rest, and all at once after an outage
	@ulimit -n 16384 && $(MEASURE)/fleet

docs: build ## write the generated pages anew
	@target/debug/gpuaas-docs traceability
	@target/debug/gpuaas-docs reference
	@target/debug/gpuaas-gateway openapi > docs/reference/openapi.json
	@target/debug/gpuaas-gateway asyncapi > docs/reference/asyncapi.json

sdk: ## write the generated files of the SDKs anew, from docs/reference/openapi.json
	@deploy/sdk.sh generate
