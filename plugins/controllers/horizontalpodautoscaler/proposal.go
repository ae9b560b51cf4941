package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// proposal is what one metric asks for.
type proposal struct {
	replicas int32
	metric   string // as events name it
	status   autoscalingv2.MetricStatus
}

// propose computes the size for one metric. An event says why it failed; failed is the
// condition for it.
func (a *autoscaler) propose(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, s *scope, m *autoscalingv2.MetricSpec) (p proposal, failed *autoscalingv2.HorizontalPodAutoscalerCondition, err error) {
	began := time.Now()
	defer func() {
		did := none
		if err == nil {
			did = action(hpa.Status.CurrentReplicas, p.replicas)
		}
		observeComputation(did, string(m.Type), err, began)
	}()
	var reason, prefix string
	switch m.Type {
	case autoscalingv2.ObjectMetricSourceType:
		reason, prefix = "FailedGetObjectMetric", "failed to get object metric value"
		p, err = a.proposeForObject(s, m.Object)
	case autoscalingv2.PodsMetricSourceType:
		reason, prefix = "FailedGetPodsMetric", "failed to get pods metric value"
		p, err = a.proposeForPods(s, m.Pods)
	case autoscalingv2.ResourceMetricSourceType:
		reason, prefix = "FailedGetResourceMetric", fmt.Sprintf("failed to get %s resource metric value", m.Resource.Name)
		p, err = a.proposeForResource(ctx, s, m.Resource)
	case autoscalingv2.ContainerResourceMetricSourceType:
		reason, prefix = "FailedGetContainerResourceMetric", fmt.Sprintf("failed to get %s container metric value", m.ContainerResource.Container)
		p, err = a.proposeForContainer(ctx, s, m.ContainerResource)
	case autoscalingv2.ExternalMetricSourceType:
		reason, prefix = "FailedGetExternalMetric", fmt.Sprintf("failed to get %s external metric value", m.External.Metric.Name)
		p, err = a.proposeForExternal(s, m.External)
	default:
		reason, err = "InvalidMetricSourceType", specErrorf("unknown metric source type %q", string(m.Type))
	}
	if err == nil {
		return p, nil, nil
	}
	a.recorder.Event(hpa, corev1.EventTypeWarning, reason, err.Error())
	failed = &autoscalingv2.HorizontalPodAutoscalerCondition{
		Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: reason,
		Message: fmt.Sprintf("the HPA was unable to compute the replica count: %v", err),
	}
	if prefix != "" {
		err = fmt.Errorf("%s: %w", prefix, err)
	}
	return proposal{}, failed, err
}

func (a *autoscaler) proposeForObject(s *scope, m *autoscalingv2.ObjectMetricSource) (p proposal, err error) {
	of, err := metav1.LabelSelectorAsSelector(m.Metric.Selector)
	if err != nil {
		return p, err
	}
	status := &autoscalingv2.ObjectMetricStatus{DescribedObject: m.DescribedObject, Metric: m.Metric}
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ObjectMetricSourceType, Object: status}
	var value int64
	switch {
	case m.Target.Type == autoscalingv2.ValueMetricType && m.Target.Value != nil:
		p.replicas, value, err = a.calc.byObject(s, m.Metric.Name, &m.DescribedObject, of, thousandths(*m.Target.Value))
		status.Current.Value = resource.NewMilliQuantity(value, resource.DecimalSI)
		p.metric = fmt.Sprintf("%s metric %s", m.DescribedObject.Kind, m.Metric.Name)
	case m.Target.Type == autoscalingv2.AverageValueMetricType && m.Target.AverageValue != nil:
		p.replicas, value, err = a.calc.byObjectAverage(s, m.Metric.Name, &m.DescribedObject, of, thousandths(*m.Target.AverageValue))
		if err != nil {
			err = fmt.Errorf("failed to get %s object metric: %w", m.Metric.Name, err)
		}
		status.Current.AverageValue = resource.NewMilliQuantity(value, resource.DecimalSI)
		p.metric = fmt.Sprintf("external metric %s(%+v)", m.Metric.Name, m.Metric.Selector)
	default:
		err = errors.New("invalid object metric source: neither a value target nor an average value target was set")
	}
	return p, err
}

func (a *autoscaler) proposeForPods(s *scope, m *autoscalingv2.PodsMetricSource) (p proposal, err error) {
	of, err := metav1.LabelSelectorAsSelector(m.Metric.Selector)
	if err != nil {
		return p, err
	}
	if m.Target.AverageValue == nil {
		return p, errors.New("invalid pods metric source: no average value target was set")
	}
	var average int64
	p.replicas, average, err = a.calc.byPodsMetric(s, m.Metric.Name, of, thousandths(*m.Target.AverageValue))
	p.metric = fmt.Sprintf("pods metric %s", m.Metric.Name)
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{
		Metric: m.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: resource.NewMilliQuantity(average, resource.DecimalSI)},
	}}
	return p, err
}

func (a *autoscaler) proposeForResource(ctx context.Context, s *scope, m *autoscalingv2.ResourceMetricSource) (proposal, error) {
	p, current, err := a.proposeForUse(ctx, s, m.Name, "", &m.Target)
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{Name: m.Name, Current: current}}
	return p, err
}

func (a *autoscaler) proposeForContainer(ctx context.Context, s *scope, m *autoscalingv2.ContainerResourceMetricSource) (proposal, error) {
	p, current, err := a.proposeForUse(ctx, s, m.Name, m.Container, &m.Target)
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{
		Name: m.Name, Container: m.Container, Current: current,
	}}
	return p, err
}

// proposeForUse is for what pods, or a container of theirs, use of a resource.
func (a *autoscaler) proposeForUse(ctx context.Context, s *scope, name corev1.ResourceName, container string, target *autoscalingv2.MetricTarget) (p proposal, current autoscalingv2.MetricValueStatus, err error) {
	if target.AverageValue != nil {
		var average int64
		if p.replicas, average, err = a.calc.byUsage(ctx, s, name, container, thousandths(*target.AverageValue)); err != nil {
			return p, current, fmt.Errorf("failed to get %s usage: %w", name, err)
		}
		p.metric = fmt.Sprintf("%s resource", name)
		current.AverageValue = amount(name, average)
		return p, current, nil
	}
	if target.AverageUtilization == nil {
		return p, current, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	u, err := a.calc.byUtilization(ctx, s, name, container, *target.AverageUtilization)
	if err != nil {
		return p, current, fmt.Errorf("failed to get %s utilization: %w", name, err)
	}
	p.replicas, p.metric = u.replicas, fmt.Sprintf("%s resource utilization (percentage of request)", name)
	if container != "" {
		p.metric = fmt.Sprintf("%s container resource utilization (percentage of request)", name)
	}
	current.AverageUtilization, current.AverageValue = &u.percent, amount(name, u.average)
	return p, current, nil
}

// amount writes a quantity as the API of resource metrics does.
func amount(name corev1.ResourceName, value int64) *resource.Quantity {
	format := resource.DecimalSI
	if name == corev1.ResourceMemory {
		format = resource.BinarySI
	}
	return resource.NewMilliQuantity(value, format)
}

func (a *autoscaler) proposeForExternal(s *scope, m *autoscalingv2.ExternalMetricSource) (p proposal, err error) {
	status := &autoscalingv2.ExternalMetricStatus{Metric: m.Metric}
	p.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: status}
	p.metric = fmt.Sprintf("external metric %s(%+v)", m.Metric.Name, m.Metric.Selector)
	var value int64
	switch {
	case m.Target.AverageValue != nil:
		p.replicas, value, err = a.calc.byExternalAverage(s, &m.Metric, thousandths(*m.Target.AverageValue))
		if err != nil {
			return p, fmt.Errorf("failed to get %s external metric: %w", m.Metric.Name, err)
		}
		status.Current.AverageValue = resource.NewMilliQuantity(value, resource.DecimalSI)
	case m.Target.Value != nil:
		p.replicas, value, err = a.calc.byExternal(s, &m.Metric, thousandths(*m.Target.Value))
		if err != nil {
			return p, fmt.Errorf("failed to get external metric %s: %w", m.Metric.Name, err)
		}
		status.Current.Value = resource.NewMilliQuantity(value, resource.DecimalSI)
	default:
		return p, errors.New("invalid external metric source: neither a value target nor an average value target was set")
	}
	return p, nil
}
