package servicecidr

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

func serviceRange(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func deleted(o *networkingv1.ServiceCIDR, at time.Time, finalizers ...string) *networkingv1.ServiceCIDR {
	o.DeletionTimestamp, o.Finalizers = &metav1.Time{Time: at}, finalizers
	return o
}

func address(ip string, managed bool) *networkingv1.IPAddress {
	o := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip}}
	if managed {
		o.Labels = map[string]string{networkingv1.LabelManagedBy: allocators}
	}
	return o
}

// A range ends when nobody needs it, ten seconds after its delete at the earliest;
// what is not the controller's stays.
func TestSync(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const other = "example.com/other"
	for name, tc := range map[string]struct {
		objects    []runtime.Object // the first is looked at
		at         time.Duration    // after now
		wait       time.Duration
		finalizers []string
		ready      metav1.ConditionStatus
	}{
		"new":                 {objects: []runtime.Object{serviceRange("a", "10.0.0.0/24")}, finalizers: []string{finalizer}, ready: "True"},
		"just deleted":        {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer)}, at: time.Second, wait: 9 * time.Second, finalizers: []string{finalizer}},
		"unused":              {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer, other)}, at: grace, finalizers: []string{other}},
		"of somebody else":    {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, other), address("10.0.0.5", true)}, at: grace, finalizers: []string{other}},
		"in use":              {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer), address("10.0.0.5", true)}, at: grace, wait: again, finalizers: []string{finalizer}, ready: "False"},
		"second family":       {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24", "fd00::/112"), now, finalizer), address("fd00::5", true)}, at: grace, wait: again, finalizers: []string{finalizer}, ready: "False"},
		"of a gateway":        {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer, other), address("10.0.0.5", false)}, at: grace, finalizers: []string{other}},
		"outside":             {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer, other), address("10.0.1.5", true), address("10.0.0.0", true), address("10.0.0.255", true)}, at: grace, finalizers: []string{other}},
		"in a larger one":     {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer, other), serviceRange("b", "10.0.0.0/16"), address("10.0.0.5", true)}, at: grace, finalizers: []string{other}},
		"in an equal one":     {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer, other), serviceRange("b", "10.0.0.0/24"), address("10.0.0.5", true)}, at: grace, finalizers: []string{other}},
		"in one that goes":    {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24"), now, finalizer), deleted(serviceRange("b", "10.0.0.0/16"), now, finalizer), address("10.0.0.5", true)}, at: grace, wait: again, finalizers: []string{finalizer}, ready: "False"},
		"in a smaller one":    {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/16"), now, finalizer, other), serviceRange("b", "10.0.0.0/24"), address("10.0.0.5", true)}, at: grace, finalizers: []string{other}},
		"beside the smaller":  {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/16"), now, finalizer), serviceRange("b", "10.0.0.0/24"), address("10.0.0.5", true), address("10.0.0.255", true)}, at: grace, wait: again, finalizers: []string{finalizer}, ready: "False"},
		"only one has parent": {objects: []runtime.Object{deleted(serviceRange("a", "10.0.0.0/24", "fd00::/112"), now, finalizer), serviceRange("b", "10.0.0.0/16"), address("10.0.0.5", true), address("fd00::5", true)}, at: grace, wait: again, finalizers: []string{finalizer}, ready: "False"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(tc.objects...)
			factory := informers.NewSharedInformerFactory(client, 0)
			runner, err := New(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory})
			if err != nil {
				t.Fatal(err)
			}
			k := runner.(*keeper)
			k.clock = clocktesting.NewFakePassiveClock(now.Add(tc.at))
			if err := k.informer.GetStore().Add(tc.objects[0]); err != nil {
				t.Fatal(err)
			}
			err = k.sync(t.Context(), "a")
			var after *queue.After
			if errors.As(err, &after) {
				if after.Delay != tc.wait {
					t.Errorf("waits %s, want %s", after.Delay, tc.wait)
				}
			} else if err != nil || tc.wait != 0 {
				t.Errorf("%v, want a wait of %s", err, tc.wait)
			}
			have, err := client.NetworkingV1().ServiceCIDRs().Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(have.Finalizers, tc.finalizers) {
				t.Errorf("finalizers %q, want %q", have.Finalizers, tc.finalizers)
			}
			condition := meta.FindStatusCondition(have.Status.Conditions, "Ready")
			if condition == nil {
				condition = &metav1.Condition{}
			}
			if condition.Status != tc.ready {
				t.Errorf("condition %+v, want %q", condition, tc.ready)
			}
			// It writes nothing that is there already.
			if err := k.informer.GetStore().Update(have); err != nil {
				t.Fatal(err)
			}
			client.ClearActions()
			_ = k.sync(t.Context(), "a")
			for _, a := range client.Actions() {
				if a.GetVerb() != "list" {
					t.Errorf("the second time: %s %s", a.GetVerb(), a.GetResource().Resource)
				}
			}
		})
	}
}
