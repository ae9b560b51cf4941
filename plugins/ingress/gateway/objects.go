package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// Controller is what GatewayClasses of this plugin name.
const Controller = "pintle.dev/gateway"

// Objects are those of one moment, which are not changed.
type Objects struct {
	Classes    []*gatewayv1.GatewayClass
	Gateways   []*gatewayv1.Gateway
	HTTPRoutes []*gatewayv1.HTTPRoute
	GRPCRoutes []*gatewayv1.GRPCRoute
	Grants     []Grant
	// Namespaces are labels by the name.
	Namespaces map[string]map[string]string
}

// Grant is a ReferenceGrant with its namespace.
type Grant struct {
	Namespace string
	Spec      gatewayv1.ReferenceGrantSpec
}

// Settings are what the operator has given.
type Settings struct {
	// HTTPPorts and HTTPSPorts are listened at.
	HTTPPorts, HTTPSPorts map[int]bool
	// Before are the Gateways that the last Output was about. One whose class is gone since is
	// not served, and says so.
	Before map[types.UID]bool
	// Addresses are those of the machine, as the status has them. The first 16 count.
	Addresses []string
	// MaxMatches of the routes of one namespace.
	MaxMatches int
	// Patterns are those of the tables before; nil: of none.
	Patterns *Patterns
}

// Output is what is to be written.
type Output struct {
	Gateways map[types.UID]GatewayStatus
	Routes   map[types.UID][]ParentStatus
	// Secrets are those of certificates.
	Secrets map[routes.SecretName]bool
}

// Unprogrammed is the same where nothing is served, for the reason of the message.
func (o Output) Unprogrammed(message string) Output {
	set := func(all []metav1.Condition) []metav1.Condition {
		all = slices.Clone(all)
		for i := range all {
			if c := &all[i]; c.Type == string(gatewayv1.GatewayConditionProgrammed) && c.Status == metav1.ConditionTrue {
				c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonPending), message
			}
		}
		return all
	}
	out := o
	out.Gateways = make(map[types.UID]GatewayStatus, len(o.Gateways))
	for uid, g := range o.Gateways {
		g.Conditions, g.Listeners = set(g.Conditions), slices.Clone(g.Listeners)
		for i := range g.Listeners {
			g.Listeners[i].Conditions = set(g.Listeners[i].Conditions)
		}
		out.Gateways[uid] = g
	}
	return out
}

// GatewayStatus is that of one Gateway. Conditions have no times.
type GatewayStatus struct {
	Addresses  []string
	Conditions []metav1.Condition
	Listeners  []ListenerStatus
}

// ListenerStatus is that of one listener.
type ListenerStatus struct {
	Name       gatewayv1.SectionName
	Kinds      []gatewayv1.RouteGroupKind
	Attached   int32
	Conditions []metav1.Condition
}

// ParentStatus is that of a route under one of its parents.
type ParentStatus struct {
	Ref        gatewayv1.ParentReference
	Conditions []metav1.Condition
}

// Exchange joins the controllers of Ingresses and of Gateways, which have the proxy and the
// objects: each runs with and without the other.
type Exchange struct {
	mu      sync.Mutex
	pending chan struct{} // closed when what is expected has come; nil: nothing is
	objects func() *Objects
	told    func(Output)
	changed func()
}

// Expect says that objects will be offered. What it returns says that there are none for the
// time being; it may be called more than once.
func (e *Exchange) Expect() (settled func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pending := make(chan struct{})
	e.pending = pending
	return sync.OnceFunc(func() { close(pending) })
}

// Await waits until what is expected is offered, or for the time that it may take. Without
// it an Ingress could have the host of a Gateway while the process starts.
func (e *Exchange) Await(ctx context.Context, most time.Duration) {
	e.mu.Lock()
	pending := e.pending
	e.mu.Unlock()
	if pending == nil {
		return
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-pending:
	case <-late.C:
	}
}

// Offer has objects looked at from now on, and passes to told what has to be written, until
// the function that it returns is called.
func (e *Exchange) Offer(objects func() *Objects, told func(Output)) (withdraw func()) {
	e.mu.Lock()
	e.objects, e.told = objects, told
	e.mu.Unlock()
	e.Changed()
	return func() {
		e.mu.Lock()
		e.objects, e.told = nil, nil
		e.mu.Unlock()
		e.Changed()
	}
}

// Follow has changes call changed until the function that it returns is called.
func (e *Exchange) Follow(changed func()) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed = changed
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.changed = nil
	}
}

// Changed says that objects changed.
func (e *Exchange) Changed() {
	e.mu.Lock()
	changed := e.changed
	e.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// Objects are those that are offered, or nil.
func (e *Exchange) Objects() *Objects {
	e.mu.Lock()
	objects := e.objects
	e.mu.Unlock()
	if objects == nil {
		return nil
	}
	return objects()
}

// Tell passes on what is to be written.
func (e *Exchange) Tell(out Output) {
	e.mu.Lock()
	told := e.told
	e.mu.Unlock()
	if told != nil {
		told(out)
	}
}
