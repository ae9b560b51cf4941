package gatewaykeeper

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
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

// TestWithoutKinds: without the kinds it waits and asks for no object.
func TestWithoutKinds(t *testing.T) {
	client := gatewayfake.NewClientset()
	k := build(fake.NewClientset(), client, &gateway.Exchange{}, Settings{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	eventually(t, func() error {
		if len(client.Actions()) == 0 {
			return fmt.Errorf("it did not look for the kinds")
		}
		return nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() == "list" || a.GetVerb() == "watch" || a.GetVerb() == "create" {
			t.Errorf("it asks %s %s", a.GetVerb(), a.GetResource())
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
