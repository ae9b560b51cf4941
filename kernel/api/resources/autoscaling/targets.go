package autoscaling

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// mostTargets are printed; of further ones only how many there are.
const mostTargets = 2

// targetsCell is each metric's current value and the one to reach.
func targetsCell(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return "<none>"
	}
	list := make([]string, len(specs))
	for i := range specs {
		var status autoscalingv2.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		list[i] = targetCell(&specs[i], &status)
	}
	if len(list) > mostTargets {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:mostTargets], ", "), len(list)-mostTargets)
	}
	return strings.Join(list, ", ")
}

func targetCell(spec *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	switch {
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.External != nil {
			now = &status.External.Current
		}
		return valueCell(&spec.External.Target, now)
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.Object != nil {
			now = &status.Object.Current
		}
		return valueCell(&spec.Object.Target, now)
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		now := unknown
		if status.Pods != nil {
			now = quantity(status.Pods.Current.AverageValue)
		}
		return now + "/" + quantity(spec.Pods.Target.AverageValue)
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.Resource != nil {
			now = &status.Resource.Current
		}
		return fmt.Sprintf("%s: %s", spec.Resource.Name, usageCell(&spec.Resource.Target, now))
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.ContainerResource != nil {
			now = &status.ContainerResource.Current
		}
		return fmt.Sprintf("%s: %s", spec.ContainerResource.Name, usageCell(&spec.ContainerResource.Target, now))
	}
	return "<unknown type>"
}

const unknown = "<unknown>"

// quantity prints a value as upstream does, where one that is missing is nil.
// Printing a quantity writes into it, and this one may be shared.
func quantity(q *resource.Quantity) string {
	if q == nil {
		return q.String()
	}
	own := *q
	return own.String()
}

// valueCell is a value of something that is not the pods' own.
func valueCell(target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current := unknown
	if target.AverageValue != nil {
		if now != nil && now.AverageValue != nil {
			current = quantity(now.AverageValue)
		}
		return fmt.Sprintf("%s/%s (avg)", current, quantity(target.AverageValue))
	}
	if now != nil {
		current = quantity(now.Value)
	}
	return current + "/" + quantity(target.Value)
}

// usageCell is what pods use of a resource, as an amount or in percent of their requests.
func usageCell(target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current := unknown
	if target.AverageValue != nil {
		if now != nil {
			current = quantity(now.AverageValue)
		}
		return current + "/" + quantity(target.AverageValue)
	}
	if now != nil && now.AverageUtilization != nil {
		current = fmt.Sprintf("%d%%", *now.AverageUtilization)
	}
	if target.AverageUtilization == nil {
		return current + "/<auto>"
	}
	return fmt.Sprintf("%s/%d%%", current, *target.AverageUtilization)
}
