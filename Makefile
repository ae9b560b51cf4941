# Pintle. `make` alone lists the targets.

GO       ?= go
BIN      := bin
BUNDLE   := plugins/runtimes/containerd/bundle
GOBUILD  := $(GO) build
SLIM     := -ldflags='-s -w'
CONFIG   ?= configs/standalone.yaml
# What the embedded kubectl says of itself: the version of its module.
KUBECTL  := $(shell $(GO) list -m -f '{{.Version}}' k8s.io/kubectl | sed 's/^v0/v1/')

# What `pintle version` says that it was built from; empty without git.
COMMIT   := $(shell git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null)

# One setting for builds and tests, so that nothing is compiled twice; runc
# alone needs cgo.
export CGO_ENABLED := 0

# runc filters system calls (seccomp) with libseccomp. Containers do not start
# without the filter they ask for, so a build without it has to be asked for.
SECCOMP := $(if $(WITHOUT_SECCOMP),,seccomp)

# Bundles of plugins: the folder below bin/plugins, and the package it is built from.
PROCESS_BUNDLES := classic=plugins/classic modern=plugins/modern volumebinding=plugins/volumebinding points=plugins/points gang=plugins/examples/gang controllers=plugins/controllers containerd=plugins/runtimes/containerd/cmd \
                   hollow=plugins/runtimes/hollow proxies=plugins/proxies ingress=plugins/ingress
# Bundles in a module of their own, by the same names.
MODULE_BUNDLES  := dns=plugins/dns metrics-server=plugins/metricsserver
WASM_BUNDLES    := classic=plugins/classic modern=plugins/modern points=plugins/points gang=plugins/examples/gang

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build, and run the standalone cluster in the foreground (Ctrl-C stops it)
	@exec $(BIN)/pintle serve --config $(CONFIG)

.PHONY: build
build: pintle plugins tools images ## build everything into bin/

.PHONY: pintle
pintle:
	@echo "building pintle (the first time takes some minutes)"
	@$(GOBUILD) -ldflags='-s -w -X k8s.io/component-base/version.gitVersion=$(KUBECTL) -X main.commit=$(COMMIT)' -o $(BIN)/pintle ./cmd/pintle
	@$(GOBUILD) -ldflags='-s -w' -o $(BIN)/pintle-executor ./cmd/pintle-executor
	@$(GOBUILD) -ldflags='-s -w' -o $(BIN)/pintle-wasm-worker ./cmd/pintle-wasm-worker

.PHONY: plugins
plugins: pintle
	@set -e; for b in $(PROCESS_BUNDLES); do \
	  name=$${b%%=*}; pkg=$${b#*=}; \
	  echo "building plugin bundle $$name"; \
	  mkdir -p $(BIN)/plugins/$$name; \
	  $(GOBUILD) $(SLIM) -o $(BIN)/plugins/$$name/$$name ./$$pkg; \
	  cp $$(test -f $$pkg/manifest.yaml && echo $$pkg || dirname $$pkg)/manifest.yaml $(BIN)/plugins/$$name/manifest.yaml; \
	done; \
	for b in $(MODULE_BUNDLES); do \
	  name=$${b%%=*}; pkg=$${b#*=}; \
	  echo "building plugin bundle $$name"; \
	  mkdir -p $(BIN)/plugins/$$name; \
	  (cd $$pkg && $(GOBUILD) $(SLIM) -o $(CURDIR)/$(BIN)/plugins/$$name/$$name .); \
	  cp $$pkg/manifest.yaml $(BIN)/plugins/$$name/manifest.yaml; \
	done; \
	for b in $(WASM_BUNDLES); do \
	  name=$${b%%=*}; pkg=$${b#*=}; \
	  echo "building plugin bundle $$name as WebAssembly"; \
	  GOOS=wasip1 GOARCH=wasm $(GOBUILD) $(SLIM) -buildmode=c-shared -o $(BIN)/plugins/$$name/$$name.wasm ./$$pkg; \
	done
	@$(BIN)/pintle plugin seal $(BIN)/plugins/*
	@$(MAKE) --no-print-directory $(BIN)/gateway-api.yaml

# The kinds of Gateway API that the plugin gateway serves, from their module.
GATEWAY_KINDS := gatewayclasses gateways httproutes grpcroutes referencegrants
$(BIN)/gateway-api.yaml: go.mod
	@mkdir -p $(@D)
	@$(GO) mod download sigs.k8s.io/gateway-api
	@dir=$$($(GO) list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard; \
	  for kind in $(GATEWAY_KINDS); do echo ---; cat $$dir/gateway.networking.k8s.io_$$kind.yaml || exit 1; done >$@.new
	@mv $@.new $@

# The container tools live in a module of their own; they change with its
# go.sum only, and with WITHOUT_SECCOMP.
TOOLS := $(BIN)/containerd/.built$(SECCOMP:%=-with-%)

.PHONY: tools
tools: $(TOOLS) $(BIN)/containerd/pause hostports

# The CNI plugin that is part of this module.
.PHONY: hostports
hostports: | $(TOOLS)
	@$(GOBUILD) $(SLIM) -o $(BIN)/containerd/cni/hostports ./plugins/runtimes/containerd/hostports

# What runc needs for seccomp: installed where that is possible, else said.
.PHONY: libseccomp
libseccomp:
	@test -z "$(SECCOMP)" || test -e $(TOOLS) || pkg-config --exists libseccomp 2>/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "installing libseccomp-dev and pkg-config, by which runc filters system calls" && \
	    { apt-get install -y -qq libseccomp-dev pkg-config >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq libseccomp-dev pkg-config >/dev/null; }; } && \
	    pkg-config --exists libseccomp; } || \
	  { echo "runc needs libseccomp-dev and pkg-config to filter system calls (seccomp): install them, or build with WITHOUT_SECCOMP=1 and set node.seccompWaived"; exit 1; }

$(TOOLS): $(BUNDLE)/go.mod $(BUNDLE)/go.sum $(wildcard $(BUNDLE)/announce/*.go) | libseccomp
	@echo "building containerd, runc and the CNI plugins (once)"
	@mkdir -p $(BIN)/containerd/cni
	@cd $(BUNDLE) && $(GOBUILD) -ldflags='-s -w -X github.com/containerd/containerd/v2/version.Version=2.4.2' -tags 'no_btrfs no_zfs no_aufs no_devmapper' -o $(CURDIR)/$(BIN)/containerd/ \
	  github.com/containerd/containerd/v2/cmd/containerd \
	  github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
	  github.com/containerd/containerd/v2/cmd/ctr
	@test -n "$(SECCOMP)" || echo "runc is built without seccomp"
	@cd $(BUNDLE) && CGO_ENABLED=1 $(GOBUILD) $(SLIM) -tags '$(SECCOMP)' -o $(CURDIR)/$(BIN)/containerd/ github.com/opencontainers/runc
	@cd $(BUNDLE) && $(GOBUILD) $(SLIM) -o $(CURDIR)/$(BIN)/containerd/cni/ \
	  github.com/containernetworking/plugins/plugins/main/bridge \
	  github.com/containernetworking/plugins/plugins/main/loopback \
	  github.com/containernetworking/plugins/plugins/meta/bandwidth \
	  github.com/containernetworking/plugins/plugins/ipam/host-local ./announce
	@rm -f $(BIN)/containerd/.built*
	@touch $@

$(BIN)/containerd/pause: plugins/runtimes/containerd/pause/pause.c
	@mkdir -p $(@D)
	@$(CC) -Os -static -s -Wall -Wextra -o $@ $<

.PHONY: images
images: tools
	@echo "building images"
	@mkdir -p $(BIN)/images
	@$(GOBUILD) $(SLIM) -o $(BIN)/mkimage ./plugins/runtimes/containerd/image/mkimage
	@$(BIN)/mkimage -o $(BIN)/images/pause.tar -t docker.io/pintle/pause:1 -binary $(BIN)/containerd/pause
	@set -e; for app in store frontend; do \
	  $(GOBUILD) $(SLIM) -o $(BIN)/guestbook/$$app ./configs/examples/guestbook/$$app; \
	  $(BIN)/mkimage -o $(BIN)/images/guestbook-$$app.tar -t docker.io/pintle/guestbook-$$app:1 -binary $(BIN)/guestbook/$$app; \
	done

# etcd is built from its Go module, which is pinned in a module of its own: the
# product holds etcd's client only.
.PHONY: etcd
etcd: $(BIN)/etcd ## build the etcd that tests of the etcd backend run, into bin/

$(BIN)/etcd: e2e/etcd/go.mod e2e/etcd/go.sum
	@echo "building etcd (once)"
	@mkdir -p $(@D)
	@cd e2e/etcd && $(GOBUILD) $(SLIM) -o $(CURDIR)/$@ go.etcd.io/etcd/server/v3

# And CoreDNS, beside which the bundle dns is measured.
.PHONY: coredns
coredns: $(BIN)/coredns ## build the CoreDNS that bench-network asks, into bin/

$(BIN)/coredns: e2e/coredns/go.mod e2e/coredns/go.sum
	@echo "building CoreDNS (once)"
	@mkdir -p $(@D)
	@cd e2e/coredns && $(GOBUILD) $(SLIM) -o $(CURDIR)/$@ github.com/coredns/coredns

# And Caddy, beside which the bundle ingress is measured, as it is beside nginx.
.PHONY: caddy
caddy: $(BIN)/caddy ## build the Caddy that bench-network asks, into bin/

$(BIN)/caddy: e2e/caddy/go.mod e2e/caddy/go.sum
	@echo "building Caddy (once; a minute)"
	@mkdir -p $(@D)
	@cd e2e/caddy && $(GOBUILD) $(SLIM) -o $(CURDIR)/$@ github.com/caddyserver/caddy/v2/cmd/caddy

# So is cosign, beside which signatures are tested.
.PHONY: cosign
cosign: $(BIN)/cosign ## build the cosign that make test-cosign runs, into bin/

$(BIN)/cosign: e2e/cosign/go.mod e2e/cosign/go.sum
	@echo "building cosign (once; some minutes)"
	@mkdir -p $(@D)
	@cd e2e/cosign && $(GOBUILD) $(SLIM) -o $(CURDIR)/$@ github.com/sigstore/cosign/v3/cmd/cosign

# So are the programs of upstream's control plane that Pintle is measured beside.
$(BIN)/kube-apiserver $(BIN)/kube-scheduler $(BIN)/kube-controller-manager: $(BIN)/kube-%: e2e/peer/go.mod e2e/peer/go.sum
	@echo "building $(@F) (once; some minutes)"
	@mkdir -p $(@D)
	@cd e2e/peer && $(GOBUILD) $(SLIM) -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$(@F)

.PHONY: test
test: build etcd ## pass every test; those that need root or a kernel feature say why they skip
	@# What failed is known of all of it after one run: the rest runs too. Tests in e2e
	@# wait more than they compute, so that more of them than processors run at once.
	@# Elsewhere many small servers start and end: a quarter of the time was the collector's.
	@# Vet is part of make check, which CI runs before.
	@status=0; \
	GOGC=300 $(GO) test -vet=off -timeout 30m $$($(GO) list ./... | grep -v '/e2e') || status=1; \
	for b in $(MODULE_BUNDLES) tools=$(BUNDLE); do (cd $${b#*=} && echo "$(GO) test ./... in $${b#*=}" && $(GO) test -timeout 10m ./...) || status=1; done; \
	$(GO) test -vet=off -timeout 60m -parallel 3 ./e2e/... || status=1; \
	exit $$status

.PHONY: generate
.PHONY: openapi-viewer
openapi-viewer: ## fetch the viewer of the OpenAPI page anew, as pinned
	kernel/api/openapiui/fetch.sh

generate: ## write the generated code anew
	$(GO) generate ./sdk/... ./kernel/...

# The linter is built from its module, as etcd is.
$(BIN)/golangci-lint: e2e/lint/go.mod e2e/lint/go.sum
	@echo "building golangci-lint (once; some minutes)"
	@mkdir -p $(@D)
	@cd e2e/lint && $(GOBUILD) $(SLIM) -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: $(BIN)/golangci-lint ## find faults by golangci-lint and its .golangci.yml (LINT=./kernel/store/...: in some packages)
	$(BIN)/golangci-lint run $(LINT)

.PHONY: check
check: check-without-lint check-generated lint ## fail where code is not formatted, vetted, linted, tidy or generated (needs protoc), or a licence is not allowed

# The modules whose go.mod and go.sum are checked. Those of some test tools fetch hundreds more.
TIDY ?= $$(git ls-files '*go.mod')

.PHONY: check-without-lint
check-without-lint: ## the same without the linter and generated code (a test compares that), as CI does
	@test -z "$$(gofmt -l $$(git ls-files '*.go') </dev/null)" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	@for m in $(TIDY); do \
	  (cd $$(dirname $$m) && $(GO) mod tidy -diff) || { echo "$$m is not tidy: run go mod tidy beside it"; exit 1; }; \
	done
	cd e2e/licences && $(GO) test ./... && $(GO) run . $(CURDIR) $(foreach b,$(MODULE_BUNDLES),$(CURDIR)/$(lastword $(subst =, ,$(b)))) $(CURDIR)/$(BUNDLE):tool

.PHONY: check-generated
check-generated: # TestGeneratedCodeIsCurrent does the same in make test
	@before=$$($(GENERATED)); $(MAKE) -s generate; test "$$before" = "$$($(GENERATED))" || \
	  { echo "generated code was not what make generate writes; it is now: commit it"; git status --short -- '*.pb.go' '*zz_generated*'; exit 1; }

# A digest of everything that is generated and checked in.
GENERATED = git ls-files -co --exclude-standard '*.pb.go' '*zz_generated*' | sort | xargs sha256sum | sha256sum

# Plays the scripts of controllers against kube-controller-manager (SCRIPTS=a,b: some).
RECONCILE = $(GO) test -count=1 -timeout 60m -run '^TestUpstream(Selectors)?$$' ./e2e/reconcile -args $(if $(SCRIPTS),-scripts=$(SCRIPTS))

.PHONY: test-controllers
test-controllers: build ## play the scripts of controllers alone, and compare with what kube-controller-manager did (SCRIPTS=a,b: some)
	$(GO) test -count=1 -timeout 30m -run 'TestControllers$$' ./e2e/reconcile -args $(if $(SCRIPTS),-scripts=$(SCRIPTS))

.PHONY: controller-goldens
controller-goldens: etcd $(BIN)/kube-apiserver $(BIN)/kube-controller-manager ## record what kube-controller-manager does (SCRIPTS=a,b: of some scripts)
	$(RECONCILE) -upstream=write

.PHONY: peer-goldens
peer-goldens: controller-goldens ## ask Kubernetes itself for the answers that the API is tested against (compiles it: some minutes)
	cd e2e/peer && $(GO) run ./upstream -corpus corpus -golden $(CURDIR)/kernel/api/testdata/peer
	cd e2e/peer && $(GO) run ./roles -out $(CURDIR)/kernel/api/testdata/peer/bootstrap-roles.json
	cd e2e/peer && $(GO) run ./gates -out $(CURDIR)/kernel/features/gates.txt
	cd e2e/peer && $(GO) run ./scheduling -out $(CURDIR)/kernel/peer/testdata/scheduling.jsonl.gz

.PHONY: test-peer
test-peer: etcd $(BIN)/kube-apiserver $(BIN)/kube-controller-manager ## check that those answers are current, and compare 12,000 more pods' scheduling (compiles Kubernetes: some minutes)
	cd e2e/peer && $(GO) test ./...
	@mkdir -p build
	cd e2e/peer && $(GO) run ./scheduling -tables=false -pods 12000 -seed $${PEER_SEED:-1} -out $(CURDIR)/build/scheduling.jsonl.gz
	$(RECONCILE) -upstream=check
	PEER_CASES=$(CURDIR)/build/scheduling.jsonl.gz $(GO) test -count=1 -timeout 30m ./kernel/peer

# The kubectl of the minor versions before, each pinned in a module of its own.
OLDER_KUBECTLS := 1.34 1.35 1.36

$(OLDER_KUBECTLS:%=$(BIN)/e2e/kubectl-%): $(BIN)/e2e/kubectl-1.%: e2e/kubectl/v1_%/go.mod e2e/kubectl/v1_%/go.sum
	@echo "building $(@F) (once; some minutes)"
	@mkdir -p $(@D)
	@cd $(<D) && $(GOBUILD) -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubectl | sed 's/^v0/v1/')" -o $(CURDIR)/$@ .

.PHONY: test-kubectl-versions
test-kubectl-versions: build $(OLDER_KUBECTLS:%=$(BIN)/e2e/kubectl-%) ## let the kubectl of three older minor versions do what users do
	KUBECTL_VERSIONS="$(OLDER_KUBECTLS)" $(GO) test -count=1 -timeout 20m -run 'TestKubectlVersions$$' -v ./e2e

.PHONY: test-crash
test-crash: ## kill the store 200 times, with and without power cuts (CRASH_SEED repeats, CRASH_ROUNDS says how often)
	CRASH_ROUNDS=$${CRASH_ROUNDS:-200} $(GO) test -count=1 -timeout 40m -run TestCrash -v ./e2e/crash

# What runs on several goroutines. The race detector needs cgo and costs ten times the time.
RACE ?= ./kernel/store/... ./kernel/bus/... ./kernel/api/storage/... ./kernel/maintenance/... ./kernel/scheduler/... ./kernel/plugin/... ./kernel/shadow/... ./sdk/...

.PHONY: test-race
test-race: ## the same tests under the race detector (RACE=./kernel/bus/... for some of them)
	CGO_ENABLED=1 $(GO) test -race -timeout 60m $(RACE)

# Of upstream's conformance suite: what tests (with the version that it says of
# itself), and what its images hold.
SUITE     := $(BIN)/conformance
SUITE_MOD := e2e/conformance/suite/go.mod e2e/conformance/suite/go.sum

$(SUITE)/e2e.test: $(SUITE_MOD)
	@echo "building e2e.test of Kubernetes (once; some ten minutes)"
	@mkdir -p $(@D)
	@cd e2e/conformance/suite && version=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) && \
	  $(GO) test -c -trimpath -ldflags="-s -w $$(for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do \
	    echo "-X $$p.gitVersion=$$version -X $$p.gitMajor=1 -X $$p.gitMinor=$$(echo $$version | cut -d. -f2) -X $$p.gitTreeState=clean -X $$p.buildDate=2026-01-01T00:00:00Z"; done)" -o $(CURDIR)/$@ k8s.io/kubernetes/test/e2e

$(SUITE)/ginkgo $(SUITE)/sample-apiserver $(SUITE)/agnhost $(SUITE)/nonewprivs: $(SUITE_MOD)
	@mkdir -p $(@D)
	@cd e2e/conformance/suite && $(GOBUILD) -trimpath $(SLIM) -o $(CURDIR)/$@ $(PACKAGE_OF_$(@F))

PACKAGE_OF_ginkgo           := github.com/onsi/ginkgo/v2/ginkgo
PACKAGE_OF_sample-apiserver := k8s.io/sample-apiserver
PACKAGE_OF_agnhost          := k8s.io/kubernetes/test/images/agnhost
PACKAGE_OF_nonewprivs       := k8s.io/kubernetes/test/images/nonewprivs

# FOCUS is a regular expression of names, PROCS how many run at a time.
.PHONY: conformance
conformance: build etcd $(addprefix $(SUITE)/,e2e.test ginkgo sample-apiserver agnhost nonewprivs) ## Kubernetes' own conformance tests, as root (FOCUS="sig-auth" PROCS=4: some of them; CONFORMANCE_FLAGS=-help); reports in build/conformance/
	@$(GO) run ./e2e/conformance $(if $(FOCUS),-focus='$(FOCUS)') $(if $(PROCS),-procs=$(PROCS)) $(CONFORMANCE_FLAGS)

.PHONY: conformance-apps
conformance-apps: build etcd $(addprefix $(SUITE)/,e2e.test ginkgo sample-apiserver agnhost nonewprivs) ## upstream's tests of sig-apps beyond conformance, as root; reports in build/conformance-apps/
	@$(GO) run ./e2e/conformance -all -focus='\[sig-apps\]$(FOCUS)' -skip='\[Conformance\]|Deploy clustered applications' -list e2e/conformance/sig-apps.txt -out build/conformance-apps $(CONFORMANCE_FLAGS)

# Of Gateway API's conformance suite, of the version that bin/gateway-api.yaml has: what
# tests, and what its image holds.
GATEWAY_SUITE     := $(BIN)/gatewayconformance
GATEWAY_SUITE_MOD := e2e/gatewayconformance/suite/go.mod e2e/gatewayconformance/suite/go.sum

$(GATEWAY_SUITE)/suite.test: $(GATEWAY_SUITE_MOD)
	@mkdir -p $(@D)
	@cd e2e/gatewayconformance/suite && $(GO) test -c -trimpath $(SLIM) -o $(CURDIR)/$@ .

$(GATEWAY_SUITE)/echo-basic: $(GATEWAY_SUITE_MOD)
	@mkdir -p $(@D)
	@cd e2e/gatewayconformance/suite && $(GOBUILD) -trimpath $(SLIM) -o $(CURDIR)/$@ sigs.k8s.io/gateway-api/conformance/echo-basic

.PHONY: gateway-conformance
gateway-conformance: build $(BIN)/coredns $(GATEWAY_SUITE)/suite.test $(GATEWAY_SUITE)/echo-basic ## Gateway API's own conformance tests of its HTTP and gRPC profiles, as root (GATEWAY_FLAGS="-test HTTPRouteWeight": one); report in build/gateway-conformance/
	@$(GO) run ./e2e/gatewayconformance $(GATEWAY_FLAGS)

.PHONY: test-flakes
test-flakes: build ## each e2e test twenty times in a row on busy processors (FLAKES_FLAGS="-run TestPods -runs 5": some of them; -rounds 3: goes on where it ended); results in build/flakes/
	@CGO_ENABLED=0 $(GO) run ./e2e/flakes $(FLAKES_FLAGS)

.PHONY: test-many-plugins
test-many-plugins: build ## load 200 plugins at once (5 GiB of memory); make test loads 40
	MANY_PLUGINS=200 $(GO) test -count=1 -timeout 20m -run TestManyPlugins -v ./e2e

# Packages whose tests the virtual machine runs, and which of these.
VM_TESTS ?= ./plugins/proxies/ipvs ./plugins/proxies ./kernel/node/cgroup ./plugins/networks/bridge
VM_RUN   ?= TestSuite$$|TestDrawnServices|TestKernel|TestSchedulers|TestAffinity|TestGracefulKernel|TestUDP|TestSCTP|TestRemove$$|TestChangeOfIPVS|TestPodsOfOneBridge|TestMemoryLimit|TestPIDLimit|TestCPULimit|TestGroupEndsWhatForks|TestWireGuard|TestBothFamilies|TestIPv6Alone

.PHONY: test-vm
test-vm: ## run tests on a kernel of Debian in a virtual machine (installs qemu; VM_TESTS=./plugins/proxies/nftables VM_RUN=TestUDP: others; VM_FLAGS=-help)
	@$(GO) run ./e2e/vm -run '$(VM_RUN)' $(VM_FLAGS) $(VM_TESTS)

.PHONY: test-cosign
test-cosign: cosign ## let cosign sign for the catalog and verify what Pintle signed (COSIGN_FLAGS=-update writes the fixture of make test anew)
	PATH=$(CURDIR)/$(BIN):$$PATH $(GO) test -count=1 -run TestCosign -v ./kernel/catalog $(COSIGN_FLAGS)

.PHONY: test-soak
test-soak: ## rewrite the same keys for 10 minutes; disk and memory in build/bench/soak.{json,svg}
	SOAK=$${SOAK:-10m} SOAK_OUT=$(CURDIR)/build/bench $(GO) test -count=1 -timeout 40m -run TestSoak -v ./kernel/store

.PHONY: bench bench-start bench-memory bench-create bench-schedule bench-deployment bench-pod
bench: build ## measure start, memory, creates, scheduling, pods; JSON in build/bench/
	@CGO_ENABLED=0 $(GO) run ./e2e/bench

bench-start: ## serve to /readyz ok, first and later starts
bench-memory: ## what an idle cluster weighs, without containerd
bench-create: ## durable pod creates a second
bench-schedule: ## 1,000 hollow nodes, 5,000 pods: create to bound
bench-deployment: ## a Deployment of 5,000 on 100 hollow nodes: ready, memory, gone
bench-pod: ## pod create to Running against CRI by hand
bench-start bench-memory bench-create bench-schedule bench-deployment bench-pod: build
	@CGO_ENABLED=0 $(GO) run ./e2e/bench $(@:bench-%=%)

.PHONY: bench-store
bench-store: build etcd $(BIN)/kube-apiserver ## the store and the API beside etcd and kube-apiserver (STORE_FLAGS="-soak 10m": a long soak); chart in build/bench/
	@CGO_ENABLED=0 $(GO) run ./e2e/bench $(STORE_FLAGS) store

.PHONY: bench-plugin
bench-plugin: build ## what plugins cost, as WASM and as process, beside one decode a call (PLUGIN_FLAGS="-plugin-phases ask"); chart in build/bench/
	@CGO_ENABLED=0 $(GO) run ./e2e/bench $(PLUGIN_FLAGS) plugin

.PHONY: bench-peer
bench-peer: build etcd $(BIN)/kube-apiserver $(BIN)/kube-scheduler ## the scheduler beside etcd, kube-apiserver and kube-scheduler (PEER_FLAGS="-peer-nodes 500 -peer-pods 1000": a short one); chart in build/bench/
	@CGO_ENABLED=0 $(GO) run ./e2e/bench $(PEER_FLAGS) peer

.PHONY: bench-controllers
bench-controllers: build etcd $(BIN)/kube-apiserver $(BIN)/kube-scheduler $(BIN)/kube-controller-manager ## the controllers beside kube-controller-manager, on hollow nodes of one process (CONTROLLERS_FLAGS="-rows ready -nodes 100 -pods 500": a short one)
	@CGO_ENABLED=0 $(GO) run ./e2e/bench/controllers $(CONTROLLERS_FLAGS)

.PHONY: bench-hollow
bench-hollow: build ## simulated nodes with real agents, up to 50,000 with 100,000 pods (HOLLOW_FLAGS="-hollow-nodes 5000 -hollow-pods 10000 -hollow-only")
	@CGO_ENABLED=0 $(GO) run ./e2e/bench $(HOLLOW_FLAGS) hollow

.PHONY: bench-network
bench-network: build $(BIN)/coredns $(BIN)/caddy ## the proxies nftables and iptables in turns, at 10,000 services; the bundles dns and ingress beside CoreDNS, nginx and Caddy (needs root; NETWORK_FLAGS="-services 50000 -alone -rows sync": more, nftables alone)
	@$(GOBUILD) $(SLIM) -o build/bench-network-proxy ./e2e/bench/network/proxy
	@$(GO) run ./e2e/bench/network $(NETWORK_FLAGS)

.PHONY: bench-scale
bench-scale: build ## grow to 50,000 nodes and 100,000 pods (SCALE_FLAGS="-scale-nodes 5000 -scale-pods 20000"); chart in build/bench/
	@CGO_ENABLED=0 $(GO) run ./e2e/bench $(SCALE_FLAGS) scale

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) build
