package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// AddToScheme registers the defaulting functions of the kinds and of their lists.
func AddToScheme(s *runtime.Scheme) error {
	s.AddTypeDefaultingFunc(&flowcontrolv1.FlowSchema{}, func(obj any) { SetFlowSchemaDefaults(obj.(*flowcontrolv1.FlowSchema)) })
	s.AddTypeDefaultingFunc(&flowcontrolv1.FlowSchemaList{}, func(obj any) {
		list := obj.(*flowcontrolv1.FlowSchemaList)
		for i := range list.Items {
			SetFlowSchemaDefaults(&list.Items[i])
		}
	})
	s.AddTypeDefaultingFunc(&flowcontrolv1.PriorityLevelConfiguration{}, func(obj any) {
		SetPriorityLevelDefaults(obj.(*flowcontrolv1.PriorityLevelConfiguration))
	})
	s.AddTypeDefaultingFunc(&flowcontrolv1.PriorityLevelConfigurationList{}, func(obj any) {
		list := obj.(*flowcontrolv1.PriorityLevelConfigurationList)
		for i := range list.Items {
			SetPriorityLevelDefaults(&list.Items[i])
		}
	})
	return nil
}

// SetFlowSchemaDefaults fills in what a schema does not say.
func SetFlowSchemaDefaults(o *flowcontrolv1.FlowSchema) {
	orElse(&o.Spec.MatchingPrecedence, 1000)
}

// SetPriorityLevelDefaults fills in what a level does not say.
func SetPriorityLevelDefaults(o *flowcontrolv1.PriorityLevelConfiguration) {
	if l := o.Spec.Limited; l != nil {
		if l.NominalConcurrencyShares == nil {
			l.NominalConcurrencyShares = ptr.To[int32](30)
		}
		if l.LendablePercent == nil {
			l.LendablePercent = ptr.To[int32](0)
		}
		if q := l.LimitResponse.Queuing; q != nil {
			orElse(&q.HandSize, 8)
			orElse(&q.Queues, 64)
			orElse(&q.QueueLengthLimit, 50)
		}
	}
	if e := o.Spec.Exempt; e != nil {
		if e.NominalConcurrencyShares == nil {
			e.NominalConcurrencyShares = ptr.To[int32](0)
		}
		if e.LendablePercent == nil {
			e.LendablePercent = ptr.To[int32](0)
		}
	}
}

func orElse(v *int32, value int32) {
	if *v == 0 {
		*v = value
	}
}
