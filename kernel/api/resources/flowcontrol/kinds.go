package flowcontrol

import (
	"cmp"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

// Kinds lists the served kinds.
func Kinds() []resources.Kind { return []resources.Kind{flowSchemaKind(), priorityLevelKind()} }

func flowSchemaKind() resources.Kind {
	gvk := flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema")
	main := strategy[*flowcontrolv1.FlowSchema]{
		gvk: gvk,
		parts: parts[*flowcontrolv1.FlowSchema]{
			spec: func(o *flowcontrolv1.FlowSchema) any { return &o.Spec },
			keepSpec: func(o, from *flowcontrolv1.FlowSchema) {
				o.ObjectMeta, o.Spec = from.ObjectMeta, from.Spec
			},
			keepStatus: func(o, from *flowcontrolv1.FlowSchema) { o.Status = from.Status },
			noStatus:   func(o *flowcontrolv1.FlowSchema) { o.Status = flowcontrolv1.FlowSchemaStatus{} },
		},
		validate: validateFlowSchema,
	}
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return resources.Kind{
		GVK: gvk, Resource: "flowschemas", Singular: "flowschema",
		New:      func() runtime.Object { return &flowcontrolv1.FlowSchema{} },
		NewList:  func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },
		Strategy: main,
		Status: statusStrategy[*flowcontrolv1.FlowSchema]{main, func(o *flowcontrolv1.FlowSchema) field.ErrorList {
			return validateFlowSchemaStatus(&o.Status)
		}},
		Columns: columns("Name", metaDoc["name"],
			"PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"],
			"MatchingPrecedence", spec["matchingPrecedence"],
			"DistinguisherMethod", spec["distinguisherMethod"],
			"Age", metaDoc["creationTimestamp"],
			"MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*flowcontrolv1.FlowSchema)
			method, missing := "<none>", "?"
			if o.Spec.DistinguisherMethod != nil {
				method = string(o.Spec.DistinguisherMethod.Type)
			}
			for _, c := range o.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					missing = string(c.Status)
					break
				}
			}
			return []any{o.Name, o.Spec.PriorityLevelConfiguration.Name, int64(o.Spec.MatchingPrecedence), method, age(o.CreationTimestamp), missing}, nil
		},
		// In the order in which requests are compared with them.
		RowOrder: func(a, b runtime.Object) int {
			x, y := a.(*flowcontrolv1.FlowSchema), b.(*flowcontrolv1.FlowSchema)
			return cmp.Or(cmp.Compare(x.Spec.MatchingPrecedence, y.Spec.MatchingPrecedence), cmp.Compare(x.Name, y.Name))
		},
	}
}

func priorityLevelKind() resources.Kind {
	gvk := flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration")
	main := strategy[*flowcontrolv1.PriorityLevelConfiguration]{
		gvk: gvk,
		parts: parts[*flowcontrolv1.PriorityLevelConfiguration]{
			spec: func(o *flowcontrolv1.PriorityLevelConfiguration) any { return &o.Spec },
			keepSpec: func(o, from *flowcontrolv1.PriorityLevelConfiguration) {
				o.ObjectMeta, o.Spec = from.ObjectMeta, from.Spec
			},
			keepStatus: func(o, from *flowcontrolv1.PriorityLevelConfiguration) { o.Status = from.Status },
			noStatus: func(o *flowcontrolv1.PriorityLevelConfiguration) {
				o.Status = flowcontrolv1.PriorityLevelConfigurationStatus{}
			},
		},
		validate: validatePriorityLevel,
	}
	limited, queuing := flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc(), flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return resources.Kind{
		GVK: gvk, Resource: "prioritylevelconfigurations", Singular: "prioritylevelconfiguration",
		New:      func() runtime.Object { return &flowcontrolv1.PriorityLevelConfiguration{} },
		NewList:  func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
		Strategy: main,
		Status: statusStrategy[*flowcontrolv1.PriorityLevelConfiguration]{main, func(o *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
			return validatePriorityLevelStatus(&o.Status)
		}},
		Columns: columns("Name", metaDoc["name"],
			"Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"],
			"NominalConcurrencyShares", limited["nominalConcurrencyShares"],
			"Queues", queuing["queues"],
			"HandSize", queuing["handSize"],
			"QueueLengthLimit", queuing["queueLengthLimit"],
			"Age", metaDoc["creationTimestamp"]),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*flowcontrolv1.PriorityLevelConfiguration)
			const none = "<none>"
			var shares, queues, hand, length any = none, none, none, none
			if l := o.Spec.Limited; l != nil {
				if l.NominalConcurrencyShares != nil {
					shares = int64(*l.NominalConcurrencyShares)
				}
				if q := l.LimitResponse.Queuing; q != nil {
					queues, hand, length = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
				}
			}
			return []any{o.Name, string(o.Spec.Type), shares, queues, hand, length, age(o.CreationTimestamp)}, nil
		},
	}
}

var metaDoc = metav1.ObjectMeta{}.SwaggerDoc()

// columns are of strings, as upstream's; name, description and so on.
func columns(pairs ...string) []metav1.TableColumnDefinition {
	var out []metav1.TableColumnDefinition
	for i := 0; i < len(pairs); i += 2 {
		c := metav1.TableColumnDefinition{Name: pairs[i], Type: "string", Description: pairs[i+1]}
		if i == 0 {
			c.Format = "name"
		}
		out = append(out, c)
	}
	return out
}

// age is the time since t in the short form of all tables.
func age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}
