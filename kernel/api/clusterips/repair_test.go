package clusterips

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
)

// cluster is Objects in memory.
type cluster struct {
	mu       sync.Mutex
	records  map[string]*networkingv1.IPAddress
	services map[types.NamespacedName]*corev1.Service
	ranges   []netip.Prefix
	watches  map[string]*watch.RaceFreeFakeWatcher
}

func newCluster() *cluster {
	c := &cluster{
		records: map[string]*networkingv1.IPAddress{}, services: map[types.NamespacedName]*corev1.Service{},
		ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, watches: map[string]*watch.RaceFreeFakeWatcher{},
	}
	for _, kind := range []string{kindService, kindAddress, kindRange} {
		c.watches[kind] = watch.NewRaceFreeFake()
	}
	return c
}

// source lists nothing and watches what is written from then on. end is an object of
// the kind.
func (c *cluster) source(kind string, end metav1.Object) cache.ListerWatcher {
	return &cache.ListWatch{WatchFunc: func(metav1.ListOptions) (watch.Interface, error) {
		end.SetResourceVersion("1")
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		c.watches[kind].Action(watch.Bookmark, end.(runtime.Object))
		return c.watches[kind], nil
	}}
}

func (c *cluster) Take(_ context.Context, ip netip.Addr, service types.NamespacedName) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records[ip.String()] != nil {
		return false, nil
	}
	c.put(record(ip, service))
	return true, nil
}

func (c *cluster) put(o *networkingv1.IPAddress) {
	c.records[o.Name] = o
	c.watches[kindAddress].Add(o)
}

func (c *cluster) Give(context.Context, netip.Addr, types.NamespacedName) error {
	panic("the repair removes what it has looked at")
}

func (c *cluster) Remove(_ context.Context, o *networkingv1.IPAddress) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.records[o.Name]; now != nil && now.UID == o.UID {
		delete(c.records, o.Name)
		c.watches[kindAddress].Delete(o)
	}
	return nil
}

func (c *cluster) Taken(context.Context) (out []netip.Addr, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.records {
		out = append(out, netip.MustParseAddr(name))
	}
	return out, nil
}

func (c *cluster) Ranges(ctx context.Context) ([]netip.Prefix, error) { return c.AllRanges(ctx) }

func (c *cluster) AllRanges(context.Context) ([]netip.Prefix, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ranges), nil
}

func (c *cluster) Address(_ context.Context, name string) (*networkingv1.IPAddress, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.records[name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "ipaddresses"}, name)
}

func (c *cluster) Service(_ context.Context, name types.NamespacedName) (*corev1.Service, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.services[name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, name.Name)
}

func (c *cluster) Services(context.Context) (out []corev1.Service, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.services {
		out = append(out, *o)
	}
	return out, nil
}

func (c *cluster) serve(name, ip string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}, Spec: corev1.ServiceSpec{ClusterIPs: []string{ip}}}
	c.services[types.NamespacedName{Namespace: "n", Name: name}] = o
	c.watches[kindService].Add(o)
}

// byHand writes a record as anybody may.
func (c *cluster) byHand(ip string, change func(*networkingv1.IPAddress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := record(netip.MustParseAddr(ip), types.NamespacedName{Namespace: "n", Name: "ghost"})
	change(o)
	c.put(o)
}

// state is whose each address is.
func (c *cluster) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := ""
	for _, ip := range slices.Sorted(maps.Keys(c.records)) {
		out += fmt.Sprintf("%s=%s ", ip, c.records[ip].Spec.ParentRef.Name)
	}
	return out
}

// run runs a Repair of the cluster in a bubble of synctest until the test's end, and
// gives the events.
func run(t *testing.T, c *cluster) (drain func() []string) {
	ctx, cancel := context.WithCancel(t.Context())
	recorder := events.NewFakeRecorder(100)
	r := NewRepair(c, func(context.Context) error { return nil }, recorder, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, c.source(kindService, &corev1.Service{}), c.source(kindAddress, &networkingv1.IPAddress{}), c.source(kindRange, &networkingv1.ServiceCIDR{}))
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() (out []string) {
		for {
			select {
			case e := <-recorder.Events:
				out = append(out, e)
			default:
				slices.Sort(out)
				return out
			}
		}
	}
}

// What an older kernel or an accident left is put right: at once where a service
// lacks its record, after a minute where a record lacks its service, which may be
// about to be written.
func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.serve("old", "10.0.0.2")
		drain := run(t, c)
		settle := func(want string, wantEvents ...string) {
			t.Helper()
			synctest.Wait()
			if have := c.state(); have != want {
				t.Errorf("records %q, want %q", have, want)
			}
			have := drain()
			if len(have) != len(wantEvents) {
				t.Errorf("events %q, want %q", have, wantEvents)
				return
			}
			for i := range have {
				if have[i] != wantEvents[i] {
					t.Errorf("event %q, want %q", have[i], wantEvents[i])
				}
			}
		}
		settle("10.0.0.2=old ")
		c.serve("lacking", "10.0.0.3")
		settle("10.0.0.2=old 10.0.0.3=lacking ", "Warning ClusterIPNotAllocated Cluster IP [IPv4]: 10.0.0.3 is not allocated; repairing")
		c.serve("twin", "10.0.0.3")
		settle("10.0.0.2=old 10.0.0.3=lacking ", "Warning ClusterIPAlreadyAllocated Cluster IP [IPv4]:10.0.0.3 was assigned to multiple services; please recreate service")
		c.serve("outside", "10.9.0.3")
		c.serve("unreadable", "nonsense")
		settle("10.0.0.2=old 10.0.0.3=lacking ",
			"Warning ClusterIPNotValid Cluster IP nonsense is not a valid IP; please recreate Service",
			"Warning ClusterIPOutOfRange Cluster IP [IPv4]: 10.9.0.3 is not within any configured Service CIDR; please recreate service")

		// Records by hand: another's stays, a wrong one is replaced when there is a
		// service, one that says it is of the allocators has a minute.
		c.byHand("10.0.0.9", func(o *networkingv1.IPAddress) { o.Labels = nil })
		c.byHand("10.0.0.10", func(*networkingv1.IPAddress) {})
		settle("10.0.0.10=ghost 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=ghost ")
		c.byHand("10.0.0.11", func(o *networkingv1.IPAddress) { o.Spec.ParentRef.Resource = "gateways" })
		settle("10.0.0.10=ghost 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=ghost ",
			"Warning IPAddressNotAllocated IPAddress 10.0.0.11 appears to have been modified, not referencing a Service &ParentReference{Group:,Resource:gateways,Namespace:n,Name:ghost,}: cleaning up")
		time.Sleep(grace - time.Second)
		c.byHand("10.0.0.12", func(o *networkingv1.IPAddress) { o.Spec.ParentRef.Name = "late" })
		settle("10.0.0.10=ghost 10.0.0.12=late 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=ghost ")
		time.Sleep(2 * time.Second)
		settle("10.0.0.12=late 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=ghost ",
			"Warning IPAddressNotAllocated IPAddress: 10.0.0.10 for Service n/ghost appears to have leaked: cleaning up")
		c.serve("late", "10.0.0.12")
		time.Sleep(2 * grace)
		settle("10.0.0.12=late 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=ghost ")
		c.serve("late", "10.0.0.13") // its address was changed past the API
		settle("10.0.0.12=late 10.0.0.13=late 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=ghost ", "Warning ClusterIPNotAllocated Cluster IP [IPv4]: 10.0.0.13 is not allocated; repairing")
		c.serve("claims", "10.0.0.9")
		settle("10.0.0.12=late 10.0.0.13=late 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=claims ",
			"Warning ClusterIPNotAllocated the ClusterIP [IPv4]: 10.0.0.9 for Service n/claims has a wrong reference; repairing")

		// A range that comes takes in the services that it has room for.
		c.mu.Lock()
		c.ranges = append(c.ranges, netip.MustParsePrefix("10.9.0.0/24"))
		c.mu.Unlock()
		c.watches[kindRange].Add(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}})
		settle("10.0.0.12=late 10.0.0.13=late 10.0.0.2=old 10.0.0.3=lacking 10.0.0.9=claims 10.9.0.3=outside ")
	})
}
