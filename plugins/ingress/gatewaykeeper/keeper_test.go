package gatewaykeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	"pintle.dev/pintle/plugins/ingress/gateway"
)

const patience = 2 * time.Minute

func eventually(t *testing.T, condition func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(err)
		}
	}
}

// kinds are what the API serves of Gateway API.
func kinds() []*metav1.APIResourceList {
	list := func(version string, names ...string) *metav1.APIResourceList {
		out := &metav1.APIResourceList{GroupVersion: gatewayv1.GroupName + "/" + version}
		for _, n := range names {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: n})
		}
		return out
	}
	return []*metav1.APIResourceList{list("v1", "gatewayclasses", "gateways", "httproutes", "grpcroutes"), list("v1beta1", "referencegrants")}
}

// TestRun: the class is made and accepted, objects are offered, and statuses are written
// beside those of other controllers.
func TestRun(t *testing.T) {
	others := gatewayv1.RouteParentStatus{ControllerName: "example.com/other", ParentRef: gatewayv1.ParentReference{Name: "theirs"}}
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "a"}, Status: gatewayv1.HTTPRouteStatus{RouteStatus: gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{others}}}}
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "edge", UID: "edge"}}
	// The other fake, and this one's objects at the start, go by another plural of Gateway.
	client := gatewayfake.NewSimpleClientset(route) //nolint:staticcheck // as said
	client.Resources = kinds()
	if _, err := client.GatewayV1().Gateways("infra").Create(t.Context(), g, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	core := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}})
	exchange := &gateway.Exchange{}
	// As the controller ingress does, each change is answered by what is to be written.
	var mu sync.Mutex
	var present gateway.Output
	tellAll := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		change()
		exchange.Tell(present)
	}
	defer exchange.Follow(func() { tellAll(func() {}) })()
	k := build(core, client, exchange, Settings{Class: "pintle"}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	eventually(t, func() error {
		c, err := client.GatewayV1().GatewayClasses().Get(ctx, "pintle", metav1.GetOptions{})
		if err == nil && (c.Spec.ControllerName != gateway.Controller || len(c.Status.Conditions) != 1 || c.Status.Conditions[0].Status != metav1.ConditionTrue || len(c.Status.SupportedFeatures) < 10) {
			err = fmt.Errorf("%+v", c)
		}
		return err
	})
	eventually(t, func() error {
		if o := exchange.Objects(); o == nil || len(o.Classes) != 1 || len(o.Gateways) != 1 || len(o.HTTPRoutes) != 1 || o.Namespaces["shop"]["team"] != "shop" {
			return fmt.Errorf("offered are %+v", o)
		}
		return nil
	})
	accepted := metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"}
	tell := func(status metav1.ConditionStatus) {
		c := accepted
		c.Status = status
		tellAll(func() {
			present = gateway.Output{
				Gateways: map[types.UID]gateway.GatewayStatus{"edge": {Addresses: []string{"192.0.2.1"}, Conditions: []metav1.Condition{c}, Listeners: []gateway.ListenerStatus{{Name: "http", Attached: 1, Conditions: []metav1.Condition{c}}}}},
				Routes:   map[types.UID][]gateway.ParentStatus{"a": {{Ref: gatewayv1.ParentReference{Name: "edge"}, Conditions: []metav1.Condition{c}}}},
			}
		})
	}
	tell(metav1.ConditionTrue)
	var first metav1.Time
	has := func(status metav1.ConditionStatus) {
		t.Helper()
		eventually(t, func() error {
			r, err := client.GatewayV1().HTTPRoutes("shop").Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			p := r.Status.Parents
			if len(p) != 2 || p[0].ControllerName != "example.com/other" || p[1].ControllerName != gateway.Controller || p[1].Conditions[0].Status != status {
				return fmt.Errorf("the route has the parents %+v", p)
			}
			first = p[1].Conditions[0].LastTransitionTime
			e, err := client.GatewayV1().Gateways("infra").Get(ctx, "edge", metav1.GetOptions{})
			if err == nil && (len(e.Status.Addresses) != 1 || len(e.Status.Listeners) != 1 || e.Status.Listeners[0].AttachedRoutes != 1 || e.Status.Conditions[0].Status != status) {
				err = fmt.Errorf("the Gateway has the status %+v", e.Status)
			}
			return err
		})
	}
	has(metav1.ConditionTrue)
	if first.IsZero() {
		t.Error("the condition has no time")
	}
	tell(metav1.ConditionFalse)
	has(metav1.ConditionFalse)
	// Another writer adds a condition, which stays, and takes ours away, which come back.
	foreign := metav1.Condition{Type: "example.com/PolicyAffected", Status: metav1.ConditionTrue, Reason: "Affected", LastTransitionTime: metav1.Now()}
	versions := 1
	eventually(t, func() error {
		e, err := client.GatewayV1().Gateways("infra").Get(ctx, "edge", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if meta.FindStatusCondition(e.Status.Conditions, foreign.Type) == nil {
			// It comes again where a write of the other crossed it: the fake API has no conflicts.
			versions++
			e.ResourceVersion, e.Status.Conditions = fmt.Sprint(versions), []metav1.Condition{foreign}
			if _, err := client.GatewayV1().Gateways("infra").UpdateStatus(ctx, e, metav1.UpdateOptions{}); err != nil {
				return err
			}
			return errors.New("the Gateway has the condition of the other writer alone")
		}
		if meta.FindStatusCondition(e.Status.Conditions, "Accepted") == nil {
			return fmt.Errorf("the Gateway has the conditions %+v", e.Status.Conditions)
		}
		return nil
	})
	// A route that is of no Gateway of this controller any more keeps the others' alone.
	tellAll(func() { present = gateway.Output{Routes: map[types.UID][]gateway.ParentStatus{"a": nil}} })
	eventually(t, func() error {
		r, err := client.GatewayV1().HTTPRoutes("shop").Get(ctx, "a", metav1.GetOptions{})
		if err == nil && len(r.Status.Parents) != 1 {
			err = fmt.Errorf("the route has the parents %+v", r.Status.Parents)
		}
		return err
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if o := exchange.Objects(); o != nil {
		t.Errorf("after its end it offers %+v", o)
	}
}

// TestWithoutKinds: without the kinds it waits and asks for no object; when they come it
// does.
func TestWithoutKinds(t *testing.T) {
	client := gatewayfake.NewClientset()
	var there atomic.Bool
	asked := make(chan struct{}, 1)
	client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		if there.Load() {
			return false, nil, nil
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return true, nil, apierrors.NewNotFound(schema.GroupResource{}, gatewayv1.GroupName)
	})
	client.Resources = kinds()
	k := build(fake.NewClientset(), client, &gateway.Exchange{}, Settings{}, slog.New(slog.DiscardHandler))
	k.asks = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	lists := func() (out []string) {
		for _, a := range client.Actions() {
			if a.GetVerb() == "list" || a.GetVerb() == "watch" || a.GetVerb() == "create" {
				out = append(out, a.GetVerb()+" "+a.GetResource().Resource)
			}
		}
		return out
	}
	// After the third look the first two were answered, and nothing came of them.
	for range 3 {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("it does not look for the kinds")
		}
	}
	if got := lists(); len(got) > 0 {
		t.Errorf("without the kinds it asks %v", got)
	}
	there.Store(true)
	eventually(t, func() error {
		for _, want := range []string{"list gatewayclasses", "list gateways", "list httproutes", "list grpcroutes", "list referencegrants"} {
			if got := lists(); !slices.Contains(got, want) {
				return fmt.Errorf("with the kinds it asks %v, not %s", got, want)
			}
		}
		return nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestForeignConditions: conditions of other controllers stay, in their place; one of ours
// that does not hold any more goes (GEP-713).
func TestForeignConditions(t *testing.T) {
	past := metav1.NewTime(time.Unix(1000, 0))
	c := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, LastTransitionTime: past}
	}
	theirs := c("example.com/TimeoutPolicyAffected", metav1.ConditionTrue)
	before := []metav1.Condition{c("Accepted", metav1.ConditionTrue), theirs, c("PartiallyInvalid", metav1.ConditionTrue), c("ResolvedRefs", metav1.ConditionTrue)}
	now := []metav1.Condition{c("Accepted", metav1.ConditionTrue), c("ResolvedRefs", metav1.ConditionFalse)}
	got := merged(before, now)
	if len(got) != 3 || got[0] != before[0] || got[1] != theirs || got[2].Type != "ResolvedRefs" || got[2].Status != metav1.ConditionFalse || !got[2].LastTransitionTime.After(past.Time) {
		t.Errorf("merged are %+v", got)
	}
	if again := merged(got, now); !slices.Equal(again, got) {
		t.Errorf("merged again they are %+v, want %+v", again, got)
	}
	var many []metav1.Condition
	for i := range maxConditions {
		many = append(many, c(fmt.Sprintf("example.com/%d", i), metav1.ConditionTrue))
	}
	if got := merged(many, now); len(got) != maxConditions || got[0] != many[0] || got[maxConditions-1].Type != "ResolvedRefs" {
		t.Errorf("with too many of others they are %+v", got)
	}
}

// TestChanges: a status of another writer asks for no table, so that two writers cause no
// rounds without a rest (hostile).
func TestChanges(t *testing.T) {
	route := func(change func(*gatewayv1.HTTPRoute)) *gatewayv1.HTTPRoute {
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", Generation: 1, ResourceVersion: "1"}}
		change(r)
		return r
	}
	namespace := func(change func(*corev1.Namespace)) *corev1.Namespace {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: "1"}}
		change(n)
		return n
	}
	for name, c := range map[string]struct {
		before, after any
		want          change
	}{
		"nothing":      {route(func(*gatewayv1.HTTPRoute) {}), route(func(*gatewayv1.HTTPRoute) {}), nothing},
		"a status":     {route(func(*gatewayv1.HTTPRoute) {}), route(func(r *gatewayv1.HTTPRoute) { r.ResourceVersion = "2" }), touches},
		"a spec":       {route(func(*gatewayv1.HTTPRoute) {}), route(func(r *gatewayv1.HTTPRoute) { r.ResourceVersion, r.Generation = "2", 2 }), matters},
		"a deletion":   {route(func(*gatewayv1.HTTPRoute) {}), route(func(r *gatewayv1.HTTPRoute) { r.DeletionTimestamp = ptr.To(metav1.Now()) }), matters},
		"another one":  {route(func(*gatewayv1.HTTPRoute) {}), route(func(r *gatewayv1.HTTPRoute) { r.UID = "b" }), matters},
		"labels":       {namespace(func(*corev1.Namespace) {}), namespace(func(n *corev1.Namespace) { n.Labels = map[string]string{"a": "b"} }), matters},
		"of namespace": {namespace(func(*corev1.Namespace) {}), namespace(func(n *corev1.Namespace) { n.ResourceVersion = "2" }), nothing},
	} {
		if got := of(c.before, c.after); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestSettings: what a configuration may have.
func TestSettings(t *testing.T) {
	for text, want := range map[string]string{"": "pintle", `{"class": ""}`: "", `{"class": "edge"}`: "edge"} {
		if s, err := read([]byte(text)); err != nil || s.Class != want {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{`{"class": "A b"}`, `{"clas": "a"}`, `{"class": 1}`} {
		if _, err := read([]byte(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
