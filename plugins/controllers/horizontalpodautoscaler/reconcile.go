package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// sync looks at one autoscaler, and asks for the next look a period later. An event
// and the conditions say what failed.
func (a *autoscaler) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	cached, err := a.hpas.HorizontalPodAutoscalers(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		a.histories.forget(key)
		desiredReplicas.DeleteLabelValues(namespace, name)
		return nil
	}
	if err != nil {
		return err
	}
	began := time.Now()
	r := &round{autoscaler: a, hpa: cached.DeepCopy(), former: &cached.Status, key: key, did: none}
	err = r.run(ctx)
	observeReconciliation(r.did, err, began)
	if err != nil {
		return queue.Quiet(err)
	}
	return &queue.After{Delay: a.period(), Reason: "the next look at the metrics"}
}

// round is one look at one autoscaler.
type round struct {
	*autoscaler
	hpa    *autoscalingv2.HorizontalPodAutoscaler // a copy, whose status becomes the new one
	former *autoscalingv2.HorizontalPodAutoscalerStatus
	key    string
	did    string // what the metrics call it
}

// decision is the size to scale to, and why.
type decision struct {
	replicas int32
	reason   string // of the event
	scale    bool
	statuses []autoscalingv2.MetricStatus
}

func (r *round) run(ctx context.Context) error {
	hpa := r.hpa
	to := &hpa.Spec.ScaleTargetRef
	reference := fmt.Sprintf("%s/%s/%s", to.Kind, hpa.Namespace, to.Name)
	scale, resource, err := r.targets.find(ctx, hpa.Namespace, to)
	if err != nil {
		r.recorder.Event(hpa, corev1.EventTypeWarning, "FailedGetScale", err.Error())
		setCondition(hpa, autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err))
		return errors.Join(fmt.Errorf("failed to query scale subresource for %s: %w", reference, err), r.write(ctx))
	}
	setCondition(hpa, autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	current := scale.Spec.Replicas
	h := r.histories.get(r.key, current)

	// Some metrics may fail while others decide: then there is both.
	d, partial := r.decide(ctx, scale, h)
	if partial != nil && d == nil {
		err := fmt.Errorf("failed to compute desired number of replicas based on listed metrics for %s: %w", reference, partial)
		written := r.write(ctx)
		r.recorder.Event(hpa, corev1.EventTypeWarning, "FailedComputeMetricsReplicas", partial.Error())
		return errors.Join(err, written)
	}
	if d.scale {
		if err := r.rescale(ctx, scale, resource, h, d); err != nil {
			r.setStatus(current, hpa.Status.DesiredReplicas, d.statuses)
			return errors.Join(fmt.Errorf("failed to rescale %s: %w", reference, err), r.write(ctx))
		}
	} else {
		d.replicas = current
	}
	r.setStatus(current, d.replicas, d.statuses)
	if d.scale {
		hpa.Status.LastScaleTime = ptr.To(now())
	}
	desiredReplicas.WithLabelValues(hpa.Namespace, hpa.Name).Set(float64(d.replicas))
	return errors.Join(partial, r.write(ctx))
}

// decide finds the size. No decision means that nothing is done.
func (r *round) decide(ctx context.Context, scale *autoscalingv1.Scale, h *history) (*decision, error) {
	hpa, current := r.hpa, scale.Spec.Replicas
	least, most := ptr.Deref(hpa.Spec.MinReplicas, 1), hpa.Spec.MaxReplicas
	emptied := r.scaleToZero() && isTrue(hpa, autoscalingv2.ScaledToZero)
	switch {
	case current == 0 && !(emptied && (least != 0 || hasOutsideMetric(hpa))):
		setCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		if !r.scaleToZero() {
			removeCondition(hpa, autoscalingv2.ScaledToZero)
		}
		return &decision{}, nil
	case current > most:
		return &decision{replicas: most, scale: true, reason: "Current number of replicas above Spec.MaxReplicas"}, nil
	case current < least && current != 0:
		return &decision{replicas: least, scale: true, reason: "Current number of replicas below Spec.MinReplicas"}, nil
	}
	asked, metric, statuses, err := r.measure(ctx, scale)
	if err != nil && asked < 0 {
		r.setStatus(current, hpa.Status.DesiredReplicas, statuses)
		return nil, err
	}
	d := &decision{statuses: statuses}
	switch {
	case asked > current:
		d.reason = metric + " above target"
	case asked < current:
		d.reason = "All metrics below target"
	}
	d.replicas = r.limit(hpa, h, sizes{current: current, desired: asked, least: least, most: most})
	if current == 0 && least != 0 && emptied && d.replicas < least {
		d.replicas = least
		if d.reason == "" {
			d.reason = "Current number of replicas below Spec.MinReplicas"
		}
	}
	d.scale = d.replicas != current
	return d, err
}

// measure asks every metric and returns the largest size, negative if nothing may be
// decided: no metric answered, or one did not and the others ask for less than there is.
func (r *round) measure(ctx context.Context, scale *autoscalingv1.Scale) (replicas int32, metric string, statuses []autoscalingv2.MetricStatus, err error) {
	hpa := r.hpa
	selector, pods, err := r.selector(scale)
	if err != nil {
		return -1, "", nil, err
	}
	s := &scope{namespace: hpa.Namespace, pods: selector, listed: pods, spec: scale.Spec.Replicas, status: scale.Status.Replicas, tolerances: r.tolerances(hpa)}
	specs := hpa.Spec.Metrics
	statuses = make([]autoscalingv2.MetricStatus, len(specs))
	var first *autoscalingv2.HorizontalPodAutoscalerCondition
	failures := 0
	for i := range specs {
		p, failed, fault := r.propose(ctx, hpa, s, &specs[i])
		if fault != nil {
			if failures++; failures == 1 {
				first, err = failed, fault
			}
			continue
		}
		statuses[i] = p.status
		if replicas == 0 || p.replicas > replicas {
			replicas, metric = p.replicas, p.metric
		}
	}
	if err != nil {
		err = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: %w", failures, len(specs), err)
	}
	if failures == len(specs) || failures > 0 && replicas < scale.Spec.Replicas {
		if first != nil {
			setCondition(hpa, first.Type, first.Status, first.Reason, first.Message)
		}
		if err == nil {
			err = errors.New("invalid metrics: there is none")
		}
		return -1, "", statuses, err
	}
	setCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+metric)
	return replicas, metric, statuses, err
}

// selector reads the selector of the target and lists its pods, which no other autoscaler
// may scale.
func (r *round) selector(scale *autoscalingv1.Scale) (labels.Selector, []*corev1.Pod, error) {
	hpa, text := r.hpa, scale.Status.Selector
	refuse := func(event, reason, told, condition string) error {
		r.recorder.Event(hpa, corev1.EventTypeWarning, event, told)
		setCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionFalse, reason, condition)
		return errors.New(told)
	}
	if text == "" {
		return nil, nil, refuse("SelectorRequired", "InvalidSelector", "selector is required", "the HPA target's scale is missing a selector")
	}
	parsed, err := labels.Parse(text)
	if err != nil {
		words := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return nil, nil, refuse("InvalidSelector", "InvalidSelector", words, words)
	}
	r.selectors.set(hpa.Namespace, hpa.Name, parsed)
	pods, err := r.calc.pods.Pods(hpa.Namespace).List(parsed)
	if err != nil {
		return nil, nil, err
	}
	if by := r.selectors.selecting(hpa.Namespace, pods); len(by) > 1 {
		words := fmt.Sprintf("pods by selector %v are controlled by multiple HPAs: [%s]", text, strings.Join(by, " "))
		return nil, nil, refuse("AmbiguousSelector", "AmbiguousSelector", words, words)
	}
	return parsed, pods, nil
}

func (r *round) tolerances(hpa *autoscalingv2.HorizontalPodAutoscaler) tolerances {
	t := tolerances{down: r.config.HorizontalPodAutoscalerTolerance, up: r.config.HorizontalPodAutoscalerTolerance}
	b := hpa.Spec.Behavior
	if b == nil || !r.config.FeatureGates[gateTolerance] {
		return t
	}
	if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}

func (r *round) rescale(ctx context.Context, scale *autoscalingv1.Scale, resource schema.GroupResource, h *history, d *decision) error {
	hpa, current := r.hpa, scale.Spec.Replicas
	if err := r.targets.resize(ctx, resource, scale, d.replicas); err != nil {
		r.recorder.Eventf(hpa, corev1.EventTypeWarning, "FailedRescale", "New size: %d; reason: %s; error: %v", d.replicas, d.reason, err.Error())
		setCondition(hpa, autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
		return err
	}
	setCondition(hpa, autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", d.replicas))
	r.recorder.Eventf(hpa, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", d.replicas, d.reason)
	h.scaled(hpa.Spec.Behavior, current, d.replicas)
	switch {
	case !r.scaleToZero():
		removeCondition(hpa, autoscalingv2.ScaledToZero)
	case current > 0 && d.replicas == 0 && ptr.Deref(hpa.Spec.MinReplicas, 1) == 0 && hasOutsideMetric(hpa):
		setCondition(hpa, autoscalingv2.ScaledToZero, corev1.ConditionTrue, "ScaledToZero", "the HPA controller scaled the workload to zero")
	default:
		setCondition(hpa, autoscalingv2.ScaledToZero, corev1.ConditionFalse, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
	}
	r.did = action(current, d.replicas)
	return nil
}
