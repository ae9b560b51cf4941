package plugin

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/observe"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// TestSpans: calls of plugins have spans named after them below the decision's;
// without one there are none.
func TestSpans(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			h := runHost(t, testConfig(t, transport, "FitsCPU", "MatchesLabels"), nil)
			p := h.Source("s").Policy()
			if err := p.Apply(t.Context(), replica(5, 1)); err != nil {
				t.Fatal(err)
			}
			spans := tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
			ctx, decision := provider.Tracer("test").Start(t.Context(), "decision")
			for _, ctx := range []context.Context{t.Context(), ctx} {
				if err := p.Filter(ctx, 0, 7, indexes(5), make([]uint32, 5)); err != nil {
					t.Fatal(err)
				}
				if len(spans.GetSpans()) == 0 != (ctx == t.Context()) {
					t.Errorf("%d spans", len(spans.GetSpans()))
				}
			}
			want := []string{"plugin FitsCPU"}
			if e, ok := p.(contractv1.Evaluator); ok && transport == manifest.TransportProcess {
				e.Evaluate(ctx, &contractv1.Evaluation{
					Class: 7, Nodes: indexes(5),
					Filters: []contractv1.FilterQuestion{{Predicate: 0}, {Predicate: 1}},
				})
				want = append(want, "plugin FitsCPU", "plugin MatchesLabels", "plugin guest")
			}
			decision.End()
			want = append(want, "decision")
			var got []string
			for _, s := range spans.GetSpans() {
				got = append(got, s.Name)
				if s.SpanContext.TraceID() != decision.SpanContext().TraceID() || s.EndTime.Before(s.StartTime) {
					t.Errorf("span %s is of another trace, or ends before it begins", s.Name)
				}
				if s.Name != "decision" && !slices.Contains(s.Attributes, attribute.String("pintle.transport", transport)) {
					t.Errorf("span %s: %v", s.Name, s.Attributes)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("spans %q, want %q", got, want)
			}
		})
	}
}

// TestTraceReachesTheProcess as traceparent, where there is one.
func TestTraceReachesTheProcess(t *testing.T) {
	call := func(ctx context.Context) []string {
		var sent metadata.MD
		err := observe.TraceCalls(ctx, "/s/m", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			sent, _ = metadata.FromOutgoingContext(ctx)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sent.Get("traceparent")
	}
	if got := call(t.Context()); got != nil {
		t.Errorf("without a trace: %q", got)
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	want := []string{"00-01000000000000000000000000000000-0200000000000000-01"}
	if got := call(trace.ContextWithSpanContext(t.Context(), sc)); !slices.Equal(got, want) {
		t.Errorf("traceparent %q, want %q", got, want)
	}
}

// BenchmarkSpanOff is what a call pays when nothing is traced.
func BenchmarkSpanOff(b *testing.B) {
	u := &unit{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		_, span := u.span(ctx, "FitsCPU", "filter")
		observe.EndSpan(span, nil)
	}
}
