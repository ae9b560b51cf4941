package plugin

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// tracerName is who makes the spans of plugins.
const tracerName = "pintle.dev/pintle/kernel/plugin"

// span begins a span of a call, named after the plugin, or after the bundle when
// several are asked at once. It is nil unless the caller's is sampled; to find that
// out is a look into ctx. The caller's may have ended: a binding outlives the
// decision.
func (u *unit) span(ctx context.Context, name, call string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if parent == noSpan || !parent.SpanContext().IsSampled() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(tracerName).Start(ctx, "plugin "+name, trace.WithAttributes(u.attributes(call)...))
}

func (u *unit) attributes(call string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("pintle.bundle", u.bundle.Manifest.Name), attribute.String("pintle.version", u.bundle.Manifest.Version),
		attribute.String("pintle.transport", u.transport), attribute.String("pintle.call", call),
	}
}

// endSpan ends a span; nil is none.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(otelcodes.Error, err.Error())
	}
	span.End()
}

// part adds a span for one plugin's share of a call that asked several: a plugin
// says how long it took, and the shares followed each other. It returns when the
// next began.
func (u *unit) part(ctx context.Context, whole trace.Span, name, call string, began time.Time, took time.Duration) time.Time {
	ended := began.Add(took)
	if whole != nil {
		_, span := whole.TracerProvider().Tracer(tracerName).Start(ctx, "plugin "+name, trace.WithTimestamp(began), trace.WithAttributes(u.attributes(call)...))
		span.End(trace.WithTimestamp(ended))
	}
	return ended
}

// traceCalls hands the trace that a call belongs to on to the process, as the
// traceparent of its metadata (W3C Trace Context). Without one it adds nothing.
func traceCalls(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if trace.SpanContextFromContext(ctx).IsValid() {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		for key, value := range carrier {
			ctx = metadata.AppendToOutgoingContext(ctx, key, value)
		}
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}
