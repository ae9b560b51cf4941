package plugin

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"pintle.dev/pintle/kernel/plugin/observe"
)

// span begins a span of a call, named after the plugin, or after the bundle when
// several are asked at once. It is nil unless the caller's is sampled; to find that
// out is a look into ctx. The caller's may have ended: a binding outlives the
// decision.
func (u *unit) span(ctx context.Context, name, call string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if parent == observe.NoSpan || !parent.SpanContext().IsSampled() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(observe.TracerName).Start(ctx, "plugin "+name, trace.WithAttributes(u.attributes(call)...))
}

func (u *unit) attributes(call string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("pintle.bundle", u.bundle.Manifest.Name), attribute.String("pintle.version", u.bundle.Manifest.Version),
		attribute.String("pintle.transport", u.transport), attribute.String("pintle.call", call),
	}
}

// part adds a span for one plugin's share of a call that asked several: a plugin
// says how long it took, and the shares followed each other. It returns when the
// next began.
func (u *unit) part(ctx context.Context, whole trace.Span, name, call string, began time.Time, took time.Duration) time.Time {
	ended := began.Add(took)
	if whole != nil {
		_, span := whole.TracerProvider().Tracer(observe.TracerName).Start(ctx, "plugin "+name, trace.WithTimestamp(began), trace.WithAttributes(u.attributes(call)...))
		span.End(trace.WithTimestamp(ended))
	}
	return ended
}
