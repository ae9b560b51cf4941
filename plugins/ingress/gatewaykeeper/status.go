package gatewaykeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"pintle.dev/pintle/plugins/ingress/gateway"
)

// maxFaults of one round are reported.
const maxFaults = 5

// faults are the errors of a round.
type faults struct{ all []error }

func (f *faults) add(what string, o metav1.Object, err error) {
	if !ignorable(err) && len(f.all) < maxFaults {
		f.all = append(f.all, fmt.Errorf("write the status of %s %s/%s: %w", what, o.GetNamespace(), o.GetName(), err))
	}
}

// maxConditions are in one list, by the API.
const maxConditions = 8

// ours are the types of conditions that this controller writes. Others are of other
// controllers, such as those of policies, and stay.
var ours = []string{
	string(gatewayv1.GatewayConditionAccepted), string(gatewayv1.GatewayConditionProgrammed), string(gatewayv1.ListenerConditionResolvedRefs),
	string(gatewayv1.ListenerConditionConflicted), string(gatewayv1.RouteConditionPartiallyInvalid),
}

// merged are conditions with the times of those that were there before, and with those of
// others. Each keeps its place, so that another writer's order is no change. The last ones
// of others go where there is no room.
func merged(before, now []metav1.Condition) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(now))
	room := maxConditions - len(now)
	for _, old := range before {
		if c := meta.FindStatusCondition(now, old.Type); c != nil {
			next := *c
			if next.LastTransitionTime = old.LastTransitionTime; old.Status != c.Status || old.LastTransitionTime.IsZero() {
				next.LastTransitionTime = metav1.Now().Rfc3339Copy()
			}
			out = append(out, next)
		} else if !slices.Contains(ours, old.Type) && room > 0 {
			room--
			out = append(out, old)
		}
	}
	for _, c := range now {
		if meta.FindStatusCondition(before, c.Type) == nil {
			c.LastTransitionTime = metav1.Now().Rfc3339Copy()
			out = append(out, c)
		}
	}
	return out
}

// writeClasses makes the class and accepts those of this controller.
func (k *keeper) writeClasses(ctx context.Context) error {
	all := faults{}
	if err := k.makeClass(ctx); err != nil {
		all.all = append(all.all, err)
	}
	classes, err := k.of.classes.List(everything)
	if err != nil {
		return err
	}
	for _, c := range classes {
		if c.Spec.ControllerName != gateway.Controller {
			continue
		}
		accepted := metav1.Condition{Type: string(gatewayv1.GatewayClassConditionStatusAccepted), Status: metav1.ConditionTrue, Reason: string(gatewayv1.GatewayClassReasonAccepted), ObservedGeneration: c.Generation}
		if c.Spec.ParametersRef != nil {
			accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, string(gatewayv1.GatewayClassReasonInvalidParameters), "spec.parametersRef is not supported"
		}
		status := gatewayv1.GatewayClassStatus{Conditions: merged(c.Status.Conditions, []metav1.Condition{accepted}), SupportedFeatures: features}
		if ctx.Err() != nil || equality.Semantic.DeepEqual(status, c.Status) {
			continue
		}
		c = c.DeepCopy()
		c.Status = status
		_, err := k.client.GatewayV1().GatewayClasses().UpdateStatus(ctx, c, metav1.UpdateOptions{})
		all.add("GatewayClass", c, err)
	}
	return errors.Join(all.all...)
}

func (k *keeper) writeGateways(ctx context.Context, out *gateway.Output, turn *turns) error {
	all := faults{}
	list, err := k.of.gateways.List(everything)
	if err != nil {
		return err
	}
	for _, g := range list {
		want, ok := out.Gateways[g.UID]
		if !ok || ctx.Err() != nil {
			continue
		}
		status := gatewayv1.GatewayStatus{Conditions: merged(g.Status.Conditions, want.Conditions), AttachedListenerSets: g.Status.AttachedListenerSets}
		for _, a := range want.Addresses {
			status.Addresses = append(status.Addresses, gatewayv1.GatewayStatusAddress{Type: ptr.To(gatewayv1.IPAddressType), Value: a})
		}
		for _, l := range want.Listeners {
			var before []metav1.Condition
			for i := range g.Status.Listeners {
				if g.Status.Listeners[i].Name == l.Name {
					before = g.Status.Listeners[i].Conditions
				}
			}
			status.Listeners = append(status.Listeners, gatewayv1.ListenerStatus{Name: l.Name, SupportedKinds: l.Kinds, AttachedRoutes: l.Attached, Conditions: merged(before, l.Conditions)})
		}
		if equality.Semantic.DeepEqual(status, g.Status) || !turn.take(g.Namespace) {
			continue
		}
		g = g.DeepCopy()
		g.Status = status
		_, err := k.client.GatewayV1().Gateways(g.Namespace).UpdateStatus(ctx, g, metav1.UpdateOptions{})
		all.add("Gateway", g, err)
	}
	return errors.Join(all.all...)
}

// parents are those of a route's status: others' as they are, and ours.
func parents(before []gatewayv1.RouteParentStatus, ours []gateway.ParentStatus) []gatewayv1.RouteParentStatus {
	out := []gatewayv1.RouteParentStatus{}
	for _, p := range before {
		if p.ControllerName != gateway.Controller {
			out = append(out, p)
		}
	}
	for _, want := range ours {
		var conditions []metav1.Condition
		for _, p := range before {
			if p.ControllerName == gateway.Controller && equality.Semantic.DeepEqual(p.ParentRef, want.Ref) {
				conditions = p.Conditions
			}
		}
		out = append(out, gatewayv1.RouteParentStatus{ParentRef: want.Ref, ControllerName: gateway.Controller, Conditions: merged(conditions, want.Conditions)})
	}
	return out
}

func (k *keeper) writeHTTPRoutes(ctx context.Context, out *gateway.Output, turn *turns) error {
	list, err := k.of.https.List(everything)
	if err != nil {
		return err
	}
	return writeRoutes(ctx, "HTTPRoute", list, out, turn,
		func(r *gatewayv1.HTTPRoute) *gatewayv1.RouteStatus { return &r.Status.RouteStatus },
		func(r *gatewayv1.HTTPRoute) error {
			_, err := k.client.GatewayV1().HTTPRoutes(r.Namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
			return err
		})
}

func (k *keeper) writeGRPCRoutes(ctx context.Context, out *gateway.Output, turn *turns) error {
	list, err := k.of.grpcs.List(everything)
	if err != nil {
		return err
	}
	return writeRoutes(ctx, "GRPCRoute", list, out, turn,
		func(r *gatewayv1.GRPCRoute) *gatewayv1.RouteStatus { return &r.Status.RouteStatus },
		func(r *gatewayv1.GRPCRoute) error {
			_, err := k.client.GatewayV1().GRPCRoutes(r.Namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
			return err
		})
}

// writeRoutes writes the statuses of routes of one kind that differ. status is where a route
// has its status, update writes a copy of the route.
func writeRoutes[R interface {
	metav1.Object
	DeepCopy() R
}](ctx context.Context, kind string, list []R, out *gateway.Output, turn *turns, status func(R) *gatewayv1.RouteStatus, update func(R) error) error {
	all := faults{}
	for _, r := range list {
		want, ok := out.Routes[r.GetUID()]
		if !ok || ctx.Err() != nil {
			continue
		}
		before := status(r).Parents
		now := parents(before, want)
		if equality.Semantic.DeepEqual(now, before) || len(now) == 0 && len(before) == 0 || !turn.take(r.GetNamespace()) {
			continue
		}
		r = r.DeepCopy()
		status(r).Parents = now
		all.add(kind, r, update(r))
	}
	return errors.Join(all.all...)
}
