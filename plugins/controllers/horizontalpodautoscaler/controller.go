package horizontalpodautoscaler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const component = "horizontal-pod-autoscaler" // as it signs events

// New builds the controller of HorizontalPodAutoscalers.
func New(c *controller.Context) (controller.Runner, error) {
	config, err := readConfig(c.Config)
	if err != nil {
		return nil, err
	}
	target, err := newTargets(c.RESTConfig)
	if err != nil {
		return nil, err
	}
	metrics, err := newSources(c.RESTConfig, target.mapper, config.HorizontalPodAutoscalerSyncPeriod.Duration)
	if err != nil {
		return nil, err
	}
	register()
	return build(c.Client, c.Informers, target, metrics, config, c.Logger), nil
}

// autoscaler is the controller.
type autoscaler struct {
	config   Config
	client   kubernetes.Interface
	hpas     autoscalinglisters.HorizontalPodAutoscalerLister
	targets  scales
	calc     *calculator
	recorder record.EventRecorder
	log      *slog.Logger

	loop    *queue.Loop[string]
	watches []queue.Watch

	histories histories
	selectors *selectorIndex
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, target scales, metrics source, config Config, log *slog.Logger) *autoscaler {
	hpas, pods := shared.Autoscaling().V2().HorizontalPodAutoscalers(), shared.Core().V1().Pods()
	a := &autoscaler{
		config: config, client: client, hpas: hpas.Lister(), targets: target, log: log,
		calc: &calculator{
			metrics: metrics, pods: pods.Lister(),
			initialization: config.HorizontalPodAutoscalerCPUInitializationPeriod.Duration,
			readinessDelay: config.HorizontalPodAutoscalerInitialReadinessDelay.Duration,
		},
		histories: histories{of: map[string]*history{}},
		selectors: newSelectorIndex(),
	}
	a.loop = queue.New(log, a.sync, queue.Options[string]{
		Name: "horizontalpodautoscaler", Workers: config.ConcurrentHorizontalPodAutoscalerSyncs, Limiter: fixed(a.period()),
	})
	a.watches = []queue.Watch{
		{Informer: hpas.Informer(), Handler: queue.On(a.changed)},
		{Informer: pods.Informer()},
	}
	return a
}

// Run works until ctx ends.
func (a *autoscaler) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, a.client, component)
	defer stop()
	a.recorder = recorder
	// The gauge is of the autoscalers that this run knows.
	autoscalers.Set(0)
	return a.loop.Follow(ctx, a.watches...)
}

func (a *autoscaler) period() time.Duration {
	return a.config.HorizontalPodAutoscalerSyncPeriod.Duration
}

func (a *autoscaler) scaleToZero() bool { return a.config.FeatureGates[gateScaleToZero] }

// changed queues an autoscaler for the end of its period. A key that waits already
// keeps its time: changes, its own ones too, make no look earlier or later.
func (a *autoscaler) changed(old, hpa *autoscalingv2.HorizontalPodAutoscaler) {
	if hpa == nil {
		a.selectors.remove(old.Namespace, old.Name)
		a.loop.AddAfter(queue.Key(old), 0)
		autoscalers.Set(float64(a.selectors.size()))
		return
	}
	if a.selectors.add(hpa.Namespace, hpa.Name) {
		autoscalers.Set(float64(a.selectors.size()))
	}
	a.loop.AddAfter(queue.Key(hpa), a.period())
}

// fixed is a limiter that has every key wait for the period.
type fixed time.Duration

var _ workqueue.TypedRateLimiter[string] = fixed(0)

// When implements workqueue.TypedRateLimiter, as do the others.
func (f fixed) When(string) time.Duration { return time.Duration(f) }

// NumRequeues counts nothing: a failure is tried again for ever.
func (fixed) NumRequeues(string) int { return 0 }

// Forget has nothing to forget.
func (fixed) Forget(string) {}

// specError is an error that is in the autoscaler itself, as the metrics tell it apart.
type specError struct{ error }

func (e specError) Unwrap() error { return e.error }

func specErrorf(format string, args ...any) error { return specError{fmt.Errorf(format, args...)} }
