package plugin

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/sdk/transport"
)

// processOf is the process of a policy's only bundle.
func processOf(t *testing.T, p *Policy) *process.Guest {
	t.Helper()
	u := p.units[0]
	u.mu.Lock()
	defer u.mu.Unlock()
	g, ok := u.guest.(*process.Guest)
	if !ok {
		t.Fatalf("guest is %T", u.guest)
	}
	return g
}

// Questions of a decision go past gRPC, to a process that says so, unless the
// decision is traced; a process that was built before them is asked by gRPC.
func TestQuestionsGoByTheSocket(t *testing.T) {
	h := runHost(t, testConfig(t, manifest.TransportProcess, "FitsCPU"), nil)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(t.Context(), replica(5, 1)); err != nil {
		t.Fatal(err)
	}
	g := processOf(t, p)
	if g.Questions == nil {
		t.Fatal("the process is asked by gRPC alone")
	}
	want, got := make([]uint32, 5), make([]uint32, 5)
	traced := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	if err := p.Filter(traced, 0, 7, indexes(5), want); err != nil {
		t.Fatal(err)
	}
	g.Connection().Close()
	if err := p.Filter(t.Context(), 0, 7, indexes(5), got); err != nil || !slices.Equal(got, want) {
		t.Errorf("without gRPC: %v, %v, want %v", got, err, want)
	}
	if err := p.Filter(traced, 0, 7, indexes(5), got); err != nil || got[0] != unavailableVerdict {
		t.Errorf("traced, without gRPC: %v, %v", got, err)
	}
}

// A process that misbehaves at its socket is started again, as after any answer out
// of range, and the cycle goes on without it.
func TestHostileSocket(t *testing.T) {
	for name, hostile := range map[string]func(conn net.Conn){
		"closes":         func(conn net.Conn) { conn.Close() },
		"closes midway":  func(conn net.Conn) { _, _ = conn.Write(make([]byte, 5)); conn.Close() },
		"another number": func(conn net.Conn) { _, _ = conn.Write([]byte{0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0}) },
		"giant":          func(conn net.Conn) { _, _ = conn.Write([]byte{255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0}) },
		"silence":        func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			source := &testSource{}
			source.set(replica(5, 1))
			h := runHost(t, testConfig(t, manifest.TransportProcess, "FitsCPU"), source)
			p := h.Source("s").Policy().(*Policy)
			if err := p.Apply(t.Context(), replica(5, 1)); err != nil {
				t.Fatal(err)
			}
			waitSound(t, p, 0)
			ours, theirs := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				if _, err := theirs.Read(make([]byte, 1<<10)); err != nil {
					t.Errorf("the question: %v", err)
				}
				hostile(theirs)
				_, _ = io.Copy(io.Discard, theirs)
			}()
			defer func() { ours.Close(); <-done }()
			if name == "silence" {
				hurry(t, p, time.Second)
			}
			g := processOf(t, p)
			p.units[0].mu.Lock()
			g.Questions = transport.NewAsker(ours)
			p.units[0].mu.Unlock()
			verdicts := make([]uint32, 5)
			if err := p.Filter(t.Context(), 0, 7, indexes(5), verdicts); err != nil || verdicts[0] != unavailableVerdict {
				t.Fatalf("asked at a hostile socket: %v, %v", verdicts, err)
			}
			waitSound(t, p, 0)
			if processOf(t, p) == g {
				t.Error("it is the same process")
			}
		})
	}
}
