package observe

import (
	"context"

	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// NoSpan is that of a context without one. To compare with it is cheaper than to ask
// it what it is.
var NoSpan = trace.SpanFromContext(context.Background())

// Sampled reports whether a call has a span.
func Sampled(ctx context.Context) bool {
	span := trace.SpanFromContext(ctx)
	return span != NoSpan && span.SpanContext().IsSampled()
}

// TracerName is who makes the spans of plugins.
const TracerName = "pintle.dev/pintle/kernel/plugin"

// EndSpan ends a span; nil is none.
func EndSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(otelcodes.Error, err.Error())
	}
	span.End()
}

// TraceCalls hands the trace that a call belongs to on to the process, as the
// traceparent of its metadata (W3C Trace Context). Without one it adds nothing.
func TraceCalls(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if trace.SpanContextFromContext(ctx).IsValid() {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		for key, value := range carrier {
			ctx = metadata.AppendToOutgoingContext(ctx, key, value)
		}
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}
