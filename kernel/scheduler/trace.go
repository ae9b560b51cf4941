package scheduler

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"pintle.dev/pintle/kernel/scheduler/explain"
)

// spanName is upstream's for one attempt to place a pod.
const spanName = "Scheduling"

// beginSpan begins the span of an attempt, with OpenTelemetry's names for what it is about.
func (s *Scheduler) beginSpan(ctx context.Context, p *podEntry) (context.Context, oteltrace.Span) {
	return s.deps.Tracer.Start(ctx, spanName, oteltrace.WithAttributes(
		attribute.String("k8s.namespace.name", p.Namespace), attribute.String("k8s.pod.name", p.Name), attribute.String("k8s.pod.uid", string(p.UID)),
		attribute.String("pintle.profile", p.Object.Spec.SchedulerName), attribute.Int("pintle.attempt", int(p.attempts)),
	))
}

func endSpan(span oteltrace.Span, d *explain.Decision) {
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("pintle.nodes", d.Nodes), attribute.Int("pintle.feasible", d.Feasible))
		if d.Node != "" {
			span.SetAttributes(attribute.String("k8s.node.name", d.Node))
		} else {
			span.SetStatus(codes.Error, d.Message)
		}
	}
	span.End()
}
