# What people run here. "make test" is what CI runs.
GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Packages whose tests start containers, or watch the clock closely: they run one
# after the other, so that they do not disturb each other.
ALONE = ./jepsentest/cluster/... ./suites/...

.PHONY: help setup test etcd long images bench lint cross fmt

help:
	@echo "make setup    install what tests need and the machine lacks (a Docker engine)"
	@echo "make test     all tests, with the race detector, and the short specs of the suites"
	@echo "make etcd     test a three-node etcd cluster, showing what happens"
	@echo "make long     the long variants: five nodes, every fault, up to three hours"
	@echo "make images   build the images of the suites ahead of time"
	@echo "make bench    all benchmarks, once"
	@echo "make lint     gofmt, vet, staticcheck, and a check that go.mod is tidy"
	@echo "make cross    build and vet for other platforms"

setup:
	@./.ci/setup

test:
	$(GO) vet ./...
	$(GO) test -race -timeout 15m $$($(GO) list ./... | grep -v -e /jepsentest/cluster -e /suites/)
	$(GO) test -race -timeout 15m -p 1 $(ALONE)

etcd:
	$(GO) test -v -count=1 ./suites/etcd

long:
	$(GO) test -v -count=1 ./suites/etcd -ginkgo.label-filter=long -timeout 3h

images:
	$(GO) run ./suites/etcd/images -C suites/etcd

bench:
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 1h $$($(GO) list ./... | grep -v /suites/)

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt is needed for:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	cd suites/etcd/image && $(GO) vet ./...
	$(STATICCHECK) ./...
	$(GO) mod tidy -diff

cross:
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=linux GOARCH=arm64 $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...

fmt:
	gofmt -w .
