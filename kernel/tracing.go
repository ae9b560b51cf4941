package kernel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"k8s.io/component-base/tracing"
	tracingv1 "k8s.io/component-base/tracing/api/v1"

	"pintle.dev/pintle/kernel/config"
)

// schedulerTracer is who makes the spans of decisions.
const schedulerTracer = "pintle.dev/pintle/kernel/scheduler"

// lastSpans is how long a stop waits for the collector.
const lastSpans = 2 * time.Second

// tellSpans is how often the log says that they are not sent.
const tellSpans = time.Minute

// startTracing connects to the collector of spans, where one is configured; no
// request and no decision waits for it, and one that is not there is nobody's
// trouble but its own. What is left is sent when all parts have stopped.
func (k *Kernel) startTracing(cfg *config.Config) error {
	if cfg.Tracing.Endpoint == "" {
		return nil
	}
	rate := int32(cfg.Tracing.SamplingRatePerMillion)
	provider, err := tracing.NewProvider(context.Background(), &tracingv1.TracingConfiguration{
		Endpoint: &cfg.Tracing.Endpoint, SamplingRatePerMillion: &rate,
	}, nil, []resource.Option{resource.WithAttributes(
		attribute.String("service.name", "pintle"), attribute.String("service.instance.id", k.holder),
	)})
	if err != nil {
		return fmt.Errorf("tracing.endpoint %s: %w", cfg.Tracing.Endpoint, err)
	}
	// Else they would be lines of no form on standard error, one a batch.
	var told sync.Mutex
	var last time.Time
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		told.Lock()
		defer told.Unlock()
		if now := time.Now(); now.Sub(last) >= tellSpans {
			last = now
			k.log.Warn("spans are not sent", "endpoint", cfg.Tracing.Endpoint, "error", err)
		}
	}))
	k.tracing = provider
	k.parts.Start("tracing", func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			k.log.Warn("the last spans were not sent", "endpoint", cfg.Tracing.Endpoint, "error", err)
		}
		return nil
	})
	return nil
}
