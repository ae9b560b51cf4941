package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// calculator computes sizes.
type calculator struct {
	metrics        source
	pods           corelisters.PodLister
	initialization time.Duration // in which the CPU of a pod may be left out
	readinessDelay time.Duration // in which a change of readiness counts as the first
}

// tolerances are the deviations of a ratio from 1 at which nothing is done.
type tolerances struct{ down, up float64 }

func (t tolerances) covers(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// scope is what a size is computed for.
type scope struct {
	namespace string
	pods      labels.Selector
	spec      int32         // replicas that are asked for
	status    int32         // replicas that there are
	listed    []*corev1.Pod // those that are selected, once they were listed
	tolerances
}

// utilized is a size by the use of a resource in percent of what is requested.
type utilized struct {
	replicas, percent int32
	average           int64 // use of a pod, in thousandths
}

// byUtilization computes the size at which pods use the given percentage of their
// requests of a resource.
func (c *calculator) byUtilization(ctx context.Context, s *scope, name corev1.ResourceName, container string, percent int32) (u utilized, err error) {
	samples, err := c.metrics.resources(ctx, name, s.namespace, s.pods, container)
	if err != nil {
		return u, fmt.Errorf("unable to get metrics for resource %s: %w", name, err)
	}
	pods, err := c.list(s)
	if err != nil {
		return u, err
	}
	groups := c.group(pods, samples, name)
	if len(samples) == 0 {
		return u, errNoSamples
	}
	requests, err := requestsOf(pods, container, name)
	if err != nil {
		return u, err
	}
	measured := false
	measure := func() (float64, error) {
		ratio, percentage, average, err := utilization(samples, requests, percent)
		if !measured {
			u.percent, u.average, measured = percentage, average, true // of what was measured alone
		}
		return ratio, err
	}
	// A pod without a sample is taken to use all that it requested, where pods are
	// taken away; or its target, if that is more.
	unknown := func(pod string) int64 {
		return toInt64(float64(requests[pod]) * float64(max(100, percent)) / 100)
	}
	u.replicas, err = s.decide(samples, groups, measure, unknown)
	return u, err
}

// byUsage computes the size at which pods use the given amount of a resource each.
func (c *calculator) byUsage(ctx context.Context, s *scope, name corev1.ResourceName, container string, target int64) (int32, int64, error) {
	samples, err := c.metrics.resources(ctx, name, s.namespace, s.pods, container)
	if err != nil {
		return 0, 0, fmt.Errorf("unable to get metrics for resource %s: %w", name, err)
	}
	return c.byAverage(s, samples, name, target)
}

// byPodsMetric computes the size at which a custom metric of the pods has the given
// average.
func (c *calculator) byPodsMetric(s *scope, metric string, of labels.Selector, target int64) (int32, int64, error) {
	samples, err := c.metrics.ofPods(metric, s.namespace, s.pods, of)
	if err != nil {
		return 0, 0, fmt.Errorf("unable to get metric %s: %w", metric, err)
	}
	return c.byAverage(s, samples, "", target)
}

func (c *calculator) byAverage(s *scope, samples map[string]sample, name corev1.ResourceName, target int64) (replicas int32, average int64, err error) {
	pods, err := c.list(s)
	if err != nil {
		return 0, 0, err
	}
	groups := c.group(pods, samples, name)
	if len(samples) == 0 {
		return 0, 0, errNoSamples
	}
	measured := false
	measure := func() (float64, error) {
		var sum int64
		for _, of := range samples {
			sum = addClamped(sum, of.value)
		}
		mean := sum / int64(len(samples))
		if !measured {
			average, measured = mean, true
		}
		return float64(mean) / float64(target), nil
	}
	replicas, err = s.decide(samples, groups, measure, func(string) int64 { return target })
	return replicas, average, err
}

var errNoSamples = errors.New("did not receive metrics for targeted pods (pods might be unready)")

// decide turns the ratio of use and target into a size. Pods without a sample, and
// those that are not ready, get one that slows the change down: they are not to make
// it larger, nor to turn its direction.
func (s *scope) decide(samples map[string]sample, groups podGroups, measure func() (float64, error), unknown func(pod string) int64) (int32, error) {
	ratio, err := measure()
	if err != nil {
		return 0, err
	}
	upWithUnready := len(groups.unready) > 0 && ratio > 1
	if !upWithUnready && len(groups.missing) == 0 {
		if s.covers(ratio) {
			return s.spec, nil
		}
		return ceil(ratio * float64(groups.ready)), nil
	}
	for pod := range groups.missing {
		switch {
		case ratio < 1:
			samples[pod] = sample{value: unknown(pod)}
		case ratio > 1:
			samples[pod] = sample{}
		}
	}
	if upWithUnready {
		for pod := range groups.unready {
			samples[pod] = sample{}
		}
	}
	again, err := measure()
	if err != nil {
		return 0, err
	}
	if s.covers(again) || ratio < 1 && again > 1 || ratio > 1 && again < 1 {
		return s.spec, nil
	}
	replicas := ceil(again * float64(len(samples)))
	if again < 1 && replicas > s.spec || again > 1 && replicas < s.spec {
		return s.spec, nil
	}
	return replicas, nil
}

// byObject computes the size at which a metric of an object has the given value.
func (c *calculator) byObject(s *scope, metric string, object *autoscalingv2.CrossVersionObjectReference, of labels.Selector, target int64) (int32, int64, error) {
	value, err := c.object(s, metric, object, of)
	if err != nil {
		return 0, 0, err
	}
	replicas, err := c.byReady(s, float64(value)/float64(target))
	return replicas, value, err
}

// byObjectAverage computes the size at which each pod's share of it has the value.
func (c *calculator) byObjectAverage(s *scope, metric string, object *autoscalingv2.CrossVersionObjectReference, of labels.Selector, target int64) (replicas int32, average int64, err error) {
	value, err := c.object(s, metric, object, of)
	if err != nil {
		return 0, 0, err
	}
	replicas, average = s.share(value, target)
	return replicas, average, nil
}

func (c *calculator) object(s *scope, metric string, object *autoscalingv2.CrossVersionObjectReference, of labels.Selector) (int64, error) {
	value, err := c.metrics.ofObject(metric, s.namespace, object, of)
	if err != nil {
		return 0, fmt.Errorf("unable to get metric %s: %w on %s %s/%s", metric, err, object.Kind, s.namespace, object.Name)
	}
	return value, nil
}

// byExternal computes the size at which an external metric has the given value.
func (c *calculator) byExternal(s *scope, metric *autoscalingv2.MetricIdentifier, target int64) (int32, int64, error) {
	value, err := c.externalValue(s, metric)
	if err != nil {
		return 0, 0, err
	}
	replicas, err := c.byReady(s, float64(value)/float64(target))
	return replicas, value, err
}

// byExternalAverage computes the size at which each pod's share of it has the value.
func (c *calculator) byExternalAverage(s *scope, metric *autoscalingv2.MetricIdentifier, target int64) (replicas int32, average int64, err error) {
	value, err := c.externalValue(s, metric)
	if err != nil {
		return 0, 0, err
	}
	replicas, average = s.share(value, target)
	return replicas, average, nil
}

func (c *calculator) externalValue(s *scope, metric *autoscalingv2.MetricIdentifier) (sum int64, err error) {
	of, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return 0, err
	}
	values, err := c.metrics.external(metric.Name, s.namespace, of)
	if err != nil {
		return 0, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", s.namespace, metric.Name, metric.Selector, err)
	}
	for _, v := range values {
		sum = addClamped(sum, v)
	}
	return sum, nil
}

// share divides a value among pods: how many are needed for each to have the target,
// and what each has now. Where there are none, the average is the whole.
func (s *scope) share(value, target int64) (replicas int32, average int64) {
	if s.status == 0 {
		return ceil(float64(value) / float64(target)), value
	}
	replicas = s.status
	if !s.covers(float64(value) / (float64(target) * float64(s.status))) {
		replicas = ceil(float64(value) / float64(target))
	}
	return replicas, toInt64(math.Ceil(float64(value) / float64(s.status)))
}

// byReady computes a size from a ratio and the pods that are ready. Where none is asked
// for, the ratio is the size.
func (c *calculator) byReady(s *scope, ratio float64) (int32, error) {
	if s.spec == 0 {
		return ceil(ratio), nil
	}
	if s.covers(ratio) {
		return s.spec, nil
	}
	pods, err := c.list(s)
	if err != nil {
		return 0, fmt.Errorf("unable to calculate ready pods: %w", err)
	}
	ready := 0
	for _, p := range pods {
		if cond := readiness(p); p.Status.Phase == corev1.PodRunning && cond != nil && cond.Status == corev1.ConditionTrue {
			ready++
		}
	}
	return ceil(ratio * float64(ready)), nil
}

func (c *calculator) list(s *scope) ([]*corev1.Pod, error) {
	if s.listed == nil {
		pods, err := c.pods.Pods(s.namespace).List(s.pods)
		if err != nil {
			return nil, fmt.Errorf("unable to get pods while calculating replica count: %w", err)
		}
		s.listed = pods
	}
	if len(s.listed) == 0 {
		return nil, errors.New("no pods returned by selector while calculating replica count")
	}
	return s.listed, nil
}

// utilization is the ratio of use and target, the use in percent of the requests, and the
// average use. Samples of pods that are not known do not count.
func utilization(samples map[string]sample, requests map[string]int64, target int32) (ratio float64, percent int32, average int64, err error) {
	var used, requested, n int64
	for pod, of := range samples {
		request, known := requests[pod]
		if !known {
			continue
		}
		used, requested, n = addClamped(used, of.value), addClamped(requested, request), n+1
	}
	if requested == 0 {
		return 0, 0, 0, errors.New("no metrics returned matched known pods")
	}
	// Whole percents, towards zero.
	if used > math.MaxInt64/100 || used < math.MinInt64/100 {
		percent = toInt32(float64(used) * 100 / float64(requested))
	} else {
		percent = int32(min(max(used*100/requested, math.MinInt32), math.MaxInt32))
	}
	return float64(percent) / float64(target), percent, used / n, nil
}

// ceil is the size that a number asks for: none where it is negative or no number.
func ceil(f float64) int32 { return max(0, toInt32(math.Ceil(f))) }

// toInt32 rounds towards zero and stays within int32; NaN gives 0.
func toInt32(f float64) int32 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt32:
		return math.MaxInt32
	case f <= math.MinInt32:
		return math.MinInt32
	}
	return int32(f)
}

// toInt64 is toInt32 for the larger numbers.
func toInt64(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}
