package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	resourcemetrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
)

const (
	// patience is how long an API of metrics may take to answer.
	patience = 20 * time.Second
	// longestAnswer is how many bytes an API of metrics may answer: some hundred
	// thousand values.
	longestAnswer = 64 << 20
	// defaultWindow is what the value of a custom metric is of, where it does not say.
	defaultWindow = time.Minute
)

// sample is what a metric of a pod was, in thousandths, over the window that ended at
// the time.
type sample struct {
	value  int64
	at     time.Time
	window time.Duration
}

// source fetches metrics. Values are in thousandths. No values is an error.
type source interface {
	// resources are the samples of the selected pods by name, of one container where
	// one is named. Pods without one are left out.
	resources(ctx context.Context, name corev1.ResourceName, namespace string, pods labels.Selector, container string) (map[string]sample, error)
	// ofPods are the samples of a custom metric of the selected pods.
	ofPods(metric, namespace string, pods, metrics labels.Selector) (map[string]sample, error)
	// ofObject is the value of a custom metric of an object.
	ofObject(metric, namespace string, object *autoscalingv2.CrossVersionObjectReference, metrics labels.Selector) (int64, error)
	// external are the values of an external metric.
	external(metric, namespace string, metrics labels.Selector) ([]int64, error)
}

// sources is source over the three APIs of metrics.
type sources struct {
	pods      resourceclient.PodMetricsesGetter
	custom    customclient.CustomMetricsClient
	externals externalclient.ExternalMetricsClient

	// What hangs holds up those that ask for it once, and no others.
	podsGate, customGate, externalGate *gate
}

var _ source = (*sources)(nil)

func newSources(config *rest.Config, mapper meta.RESTMapper, period time.Duration) (*sources, error) {
	config = rest.CopyConfig(config)
	config.Timeout = patience
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next} })
	pods, err := resourceclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of resource metrics: %w", err)
	}
	externals, err := externalclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of external metrics: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	return &sources{
		pods: pods, externals: externals,
		custom:   customclient.NewForConfig(config, mapper, &versions{AvailableAPIsGetter: customclient.NewAvailableAPIsGetter(found), period: period}),
		podsGate: newGate(period), customGate: newGate(period), externalGate: newGate(period),
	}, nil
}

func (s *sources) resources(ctx context.Context, name corev1.ResourceName, namespace string, pods labels.Selector, container string) (map[string]sample, error) {
	list, err := ask(s.podsGate, func() (*resourcemetrics.PodMetricsList, error) {
		return s.pods.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: pods.String()})
	})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	samples := make(map[string]sample, len(list.Items))
	for i := range list.Items {
		m := &list.Items[i]
		if value, ok := usage(m.Containers, name, container); ok {
			samples[m.Name] = sample{value: value, at: m.Timestamp.Time, window: m.Window.Duration}
		}
	}
	return samples, nil
}

// usage is what a container uses of a resource, or all together where none is named:
// then each has to have a value.
func usage(containers []resourcemetrics.ContainerMetrics, name corev1.ResourceName, container string) (sum int64, ok bool) {
	for i := range containers {
		c := &containers[i]
		if container != "" && c.Name != container {
			continue
		}
		q, has := c.Usage[name]
		if !has {
			return 0, false
		}
		sum, ok = addClamped(sum, thousandths(q)), true
		if container != "" {
			break
		}
	}
	return sum, ok
}

func (s *sources) ofPods(metric, namespace string, pods, metrics labels.Selector) (map[string]sample, error) {
	list, err := ask(s.customGate, func() (*custommetrics.MetricValueList, error) {
		return s.custom.NamespacedMetrics(namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, pods, metric, metrics)
	})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	samples := make(map[string]sample, len(list.Items))
	for i := range list.Items {
		m := &list.Items[i]
		window := defaultWindow
		if m.WindowSeconds != nil {
			window = time.Duration(*m.WindowSeconds) * time.Second
		}
		samples[m.DescribedObject.Name] = sample{value: thousandths(m.Value), at: m.Timestamp.Time, window: window}
	}
	return samples, nil
}

func (s *sources) ofObject(metric, namespace string, object *autoscalingv2.CrossVersionObjectReference, metrics labels.Selector) (int64, error) {
	kind := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind).GroupKind()
	value, err := ask(s.customGate, func() (*custommetrics.MetricValue, error) {
		if kind.Kind == "Namespace" && kind.Group == "" {
			// Whatever name the reference has, the metric is that of the autoscaler's own
			// namespace.
			return s.custom.RootScopedMetrics().GetForObject(kind, namespace, metric, metrics)
		}
		return s.custom.NamespacedMetrics(namespace).GetForObject(kind, object.Name, metric, metrics)
	})
	if err != nil {
		return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	return thousandths(value.Value), nil
}

func (s *sources) external(metric, namespace string, metrics labels.Selector) ([]int64, error) {
	values, err := ask(s.externalGate, func() ([]int64, error) {
		list, err := s.externals.NamespacedMetrics(namespace).List(metric, metrics)
		if err != nil {
			return nil, err
		}
		values := make([]int64, len(list.Items))
		for i := range list.Items {
			values[i] = thousandths(list.Items[i].Value)
		}
		return values, nil
	})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(values) == 0 {
		return nil, errors.New("no metrics returned from external metrics API")
	}
	return values, nil
}

// thousandths is a quantity in thousandths. What does not fit is the nearest that does:
// Quantity.MilliValue would begin again at the other end.
func thousandths(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64/1000) > 0:
		return math.MaxInt64
	case q.CmpInt64(math.MinInt64/1000) < 0:
		return math.MinInt64
	}
	return q.MilliValue()
}

// addClamped adds, up to the ends of the numbers.
func addClamped(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// bounded ends an answer that is longer than any should be.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err == nil {
		res.Body = &boundedBody{ReadCloser: res.Body, left: longestAnswer}
	}
	return res, err
}

// CancelRequest does nothing: a request ends by its context. client-go logs a warning
// where there is no such method.
func (*bounded) CancelRequest(*http.Request) {}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", longestAnswer)
	}
	if len(p) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}
