package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

const tracingConfig = `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
tracing: {endpoint: "ENDPOINT", samplingRatePerMillion: 1000000}
plugins:
  bundles:
  - name: classic
    transport: process
  - name: controllers
  - name: hollow
    privileged: true
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [CheckNodeUnschedulable, PodFitsResources]
    priorities: [{name: LeastRequestedPriority}]
controllers: {enabled: [namespace, serviceaccount]}
hollow: {runtime: hollow, nodes: 2}
`

// collector takes spans, as OpenTelemetry's does.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*tracev1.Span
	from  map[string]bool // service.name
}

func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		c.from[attribute(r.GetResource().GetAttributes(), "service.name")] = true
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func attribute(list []*commonv1.KeyValue, key string) string {
	for _, a := range list {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// find returns the spans of a name.
func (c *collector) find(name string) (found []*tracev1.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

// TestTracing: a collector gets spans of requests, of decisions, and below those
// of the plugins that were asked, named after them.
func TestTracing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{from: map[string]bool{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(strings.Replace(tracingConfig, "ENDPOINT", listener.Addr().String(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	e := minimal(t, config, filepath.Join(t.TempDir(), "data"))
	e.kubectl(t, "run", "traced", "--image=none.example/none", "--restart=Never")
	eventually(t, func(context.Context) error {
		if node := e.kubectl(t, "get", "pod", "traced", "-o", "jsonpath={.spec.nodeName}"); node == "" {
			return fmt.Errorf("the pod is on no node")
		}
		return nil
	})
	e.stop(t) // which sends what is left

	if !c.from["pintle"] {
		t.Errorf("spans are of %v", c.from)
	}
	var decision *tracev1.Span
	for _, s := range c.find("Scheduling") {
		if attribute(s.GetAttributes(), "k8s.pod.name") == "traced" && attribute(s.GetAttributes(), "k8s.node.name") != "" {
			decision = s
		}
	}
	if decision == nil {
		t.Fatalf("no span of the decision among %v", c.find("Scheduling"))
	}
	for _, name := range []string{"CheckNodeUnschedulable", "PodFitsResources", "LeastRequestedPriority"} {
		spans := c.find("plugin " + name)
		within := 0
		for _, s := range spans {
			if hex.EncodeToString(s.GetTraceId()) == hex.EncodeToString(decision.GetTraceId()) {
				within++
				if s.GetStartTimeUnixNano() < decision.GetStartTimeUnixNano() || attribute(s.GetAttributes(), "pintle.bundle") != "classic" {
					t.Errorf("span of %s: %v", name, s)
				}
			}
		}
		if within == 0 {
			t.Errorf("no span of %s below the decision, %d others", name, len(spans))
		}
	}
	if len(c.find("POST /api/v1/namespaces/{:namespace}/pods")) == 0 {
		t.Error("no span of the request that made the pod")
	}
}
