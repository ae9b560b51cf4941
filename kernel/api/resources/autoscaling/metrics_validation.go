package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

// metricTypes are those a metric can have, in the order of their names.
var metricTypes = []autoscalingv2.MetricSourceType{
	autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
	autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
}

func validateMetrics(s *autoscalingv2.HorizontalPodAutoscalerSpec, described groupRule) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("metrics")
	fromOutside := false
	for i := range s.Metrics {
		m := &s.Metrics[i]
		errs = append(errs, validateMetric(m, described, path.Index(i))...)
		fromOutside = fromOutside || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !fromOutside {
		// No pods have no usage, which would be no reason to have pods again.
		errs = append(errs, field.Forbidden(path, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// source is one of the fields of a metric, of which the type's is to be there and no other.
type source struct {
	of    autoscalingv2.MetricSourceType
	field string
	there bool
	check func(*field.Path) field.ErrorList
}

func validateMetric(m *autoscalingv2.MetricSpec, described groupRule, path *field.Path) field.ErrorList {
	sources := []source{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(p *field.Path) field.ErrorList { return validateObjectSource(m.Object, described, p) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(p *field.Path) field.ErrorList { return validateExternalSource(m.External, p) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) field.ErrorList { return validatePodsSource(m.Pods, p) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) field.ErrorList { return validateResourceSource(m.Resource, p) }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(p *field.Path) field.ErrorList {
			return validateContainerResourceSource(m.ContainerResource, p)
		}},
	}
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	known, present := false, 0
	for _, s := range sources {
		known = known || s.of == m.Type
		if s.there {
			if present == 0 {
				errs = append(errs, s.check(path.Child(s.field))...)
			}
			present++
		} else if s.of == m.Type {
			errs = append(errs, field.Required(path.Child(s.field), "must populate information for the given metric source"))
		}
	}
	if !known {
		errs = append(errs, field.NotSupported(path.Child("type"), m.Type, metricTypes))
	}
	if present > 1 {
		for _, s := range sources {
			if s.there && s.of != m.Type {
				errs = append(errs, field.Forbidden(path.Child(s.field), "must populate the given metric source only"))
			}
		}
	}
	return errs
}

const noMetricName = "must specify a metric name"

func validateObjectSource(s *autoscalingv2.ObjectMetricSource, described groupRule, path *field.Path) field.ErrorList {
	ref := s.DescribedObject
	errs := validateReference(&ref, described, path.Child("describedObject"))
	errs = append(errs, validateSegment(s.Metric.Name, noMetricName, path.Child("metric", "name"))...)
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func validateExternalSource(s *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := validateSegment(s.Metric.Name, noMetricName, path.Child("metric", "name"))
	target := path.Child("target")
	errs = append(errs, validateTarget(&s.Target, target)...)
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		errs = append(errs, field.Required(target.Child("averageValue"), "must set either a target value for metric or a per-pod target"))
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		errs = append(errs, field.Forbidden(target.Child("value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validatePodsSource(s *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := validateSegment(s.Metric.Name, noMetricName, path.Child("metric", "name"))
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func validateResourceSource(s *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateUsage(&s.Target, path.Child("target"))...)
}

func validateContainerResourceSource(s *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, resources.ValidateContainerResourceName(s.Name, path.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "must specify a container"))
	} else {
		for _, msg := range validation.IsDNS1123Label(s.Container) {
			errs = append(errs, field.Invalid(path.Child("container"), s.Container, msg))
		}
	}
	return append(errs, validateUsage(&s.Target, path.Child("target"))...)
}

// validateUsage: an amount or a percentage, and one of the two.
func validateUsage(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := validateTarget(t, path)
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value.String(), "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), t.AverageValue.String(), "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), *t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}
