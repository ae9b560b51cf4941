package clusterips

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/kernel/api/resources/ipalloc"
)

// Reporter is the name under which Repair writes events, as upstream's does.
const Reporter = "ipallocator-repair-controller"

// grace is how long a record is seen without its service before it is removed:
// longer than a request may take.
const grace = time.Minute

// Objects are what Repair compares; Records has them.
type Objects interface {
	ipalloc.Addresses
	AllRanges(ctx context.Context) ([]netip.Prefix, error)
	Address(ctx context.Context, name string) (*networkingv1.IPAddress, error)
	Remove(ctx context.Context, o *networkingv1.IPAddress) error
	Service(ctx context.Context, name types.NamespacedName) (*corev1.Service, error)
	Services(ctx context.Context) ([]corev1.Service, error)
}

// Repair keeps services and records in step.
type Repair struct {
	objects  Objects
	ensure   func(context.Context) error
	recorder events.EventRecorder
	log      *slog.Logger
	queue    workqueue.TypedRateLimitingInterface[item]

	mu   sync.Mutex
	idle map[string]since // records without a service, by name
}

// since is when a record was first seen without its service.
type since struct {
	uid     types.UID
	service types.NamespacedName
	time    time.Time
}

// item is an object to look at: a service, or a record or range, which have no
// namespace.
type item struct {
	kind string
	types.NamespacedName
}

const (
	kindService = "Service"
	kindAddress = "IPAddress"
	kindRange   = "ServiceCIDR"
	// kindExpected is a new record whose service had a minute to come.
	kindExpected = "IPAddress, new"
)

// NewRepair makes a Repair. ensure is called when a ServiceCIDR changes, and
// brings back the default one.
func NewRepair(objects Objects, ensure func(context.Context) error, recorder events.EventRecorder, log *slog.Logger) *Repair {
	return &Repair{
		objects: objects, ensure: ensure, recorder: recorder, log: log, idle: map[string]since{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[item](),
			workqueue.TypedRateLimitingQueueConfig[item]{Name: Reporter}),
	}
}

// Run works until ctx is done. The sources list and watch the kinds.
func (r *Repair) Run(ctx context.Context, services, addresses, ranges cache.ListerWatcher) {
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	if err := r.ensure(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("the ServiceCIDR of the configured range cannot be made; tried again when a ServiceCIDR changes", "error", err)
	}
	// Without events: a cluster that is older than the records has nothing wrong.
	if all, err := r.objects.Services(ctx); err == nil {
		made, err := ipalloc.Adopt(ctx, r.objects, all)
		if made > 0 {
			r.log.Info("services that had no IPAddress object for a cluster IP have one now", "addresses", made)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("cluster IPs of services cannot be recorded; tried again one by one", "error", err)
		}
	}
	var following sync.WaitGroup
	defer following.Wait()
	for _, f := range []struct {
		lw   cache.ListerWatcher
		of   runtime.Object
		kind string
	}{{services, &corev1.Service{}, kindService}, {addresses, &networkingv1.IPAddress{}, kindAddress}, {ranges, &networkingv1.ServiceCIDR{}, kindRange}} {
		following.Go(func() {
			cache.NewReflectorWithOptions(f.lw, f.of, &follower{r, f.kind}, cache.ReflectorOptions{Name: Reporter}).RunWithContext(ctx)
		})
	}
	for {
		it, stopped := r.queue.Get()
		if stopped {
			return
		}
		if err := r.look(ctx, it); err == nil {
			r.queue.Forget(it)
		} else if ctx.Err() == nil {
			r.log.Warn("a cluster IP cannot be put right; tried again", "kind", it.kind, "name", it.String(), "error", err)
			r.queue.AddRateLimited(it)
		}
		r.queue.Done(it)
	}
}

func (r *Repair) look(ctx context.Context, it item) error {
	switch it.kind {
	case kindService:
		return r.lookAtService(ctx, it.NamespacedName)
	case kindExpected:
		r.mu.Lock()
		_, waits := r.idle[it.Name]
		r.mu.Unlock()
		if !waits {
			return nil
		}
		return r.lookAtAddress(ctx, it)
	case kindAddress:
		return r.lookAtAddress(ctx, it)
	}
	return r.lookAtRange(ctx)
}

// lookAtRange follows a change of a range: services that it left out before may be
// in one now.
func (r *Repair) lookAtRange(ctx context.Context) error {
	if err := r.ensure(ctx); err != nil {
		return err
	}
	all, err := r.objects.Services(ctx)
	if err != nil {
		return err
	}
	_, err = ipalloc.Adopt(ctx, r.objects, all)
	return err
}

func (r *Repair) warn(about runtime.Object, reason, action, note string, args ...any) {
	r.recorder.Eventf(about, nil, corev1.EventTypeWarning, reason, action, note, args...)
}

// lookAtService asks for a right record of each address.
func (r *Repair) lookAtService(ctx context.Context, name types.NamespacedName) error {
	svc, err := r.objects.Service(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	held, _ := ipalloc.Held(svc)
	for _, s := range held {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			r.warn(svc, "ClusterIPNotValid", "ClusterIPValidation", "Cluster IP %s is not a valid IP; please recreate Service", s)
			continue
		}
		if err := r.lookAtHeld(ctx, svc, ip.Unmap()); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repair) lookAtHeld(ctx context.Context, svc *corev1.Service, ip netip.Addr) error {
	family, own := labelsOf(ip)[networkingv1.LabelIPAddressFamily], ipalloc.NameOf(svc)
	ranges, err := r.objects.AllRanges(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return ipalloc.Holds(p, ip) }) {
		r.warn(svc, "ClusterIPOutOfRange", "ClusterIPAllocation", "Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, ip)
		return nil
	}
	o, err := r.objects.Address(ctx, ip.String())
	if apierrors.IsNotFound(err) {
		// Perhaps the service went or gave the address up, and the record with it.
		if now, err := r.objects.Service(ctx, own); err != nil || !holds(now, ip) {
			return nil
		}
		r.warn(svc, "ClusterIPNotAllocated", "ClusterIPAllocation", "Cluster IP [%v]: %s is not allocated; repairing", family, ip)
		_, err = r.objects.Take(ctx, ip, own)
		return err
	}
	if err != nil {
		return err
	}
	if names(o, own) {
		if have := labelsOf(ip); maps.Equal(have, intersect(o.Labels, have)) {
			return nil
		}
		return r.replace(ctx, o, ip, own)
	}
	if ofService(o) {
		other, err := r.objects.Service(ctx, parentOf(o))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil && holds(other, ip) {
			r.warn(svc, "ClusterIPAlreadyAllocated", "ClusterIPAllocation", "Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, ip)
			return nil
		}
	}
	r.warn(svc, "ClusterIPNotAllocated", "ClusterIPAllocation", "the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", family, ip, svc.Namespace, svc.Name)
	return r.replace(ctx, o, ip, own)
}

// intersect is what of labels has the keys of want.
func intersect(labels, want map[string]string) map[string]string {
	out := map[string]string{}
	for k := range want {
		if v, ok := labels[k]; ok {
			out[k] = v
		}
	}
	return out
}

func (r *Repair) replace(ctx context.Context, o *networkingv1.IPAddress, ip netip.Addr, service types.NamespacedName) error {
	if err := r.objects.Remove(ctx, o); err != nil {
		return err
	}
	won, err := r.objects.Take(ctx, ip, service)
	if err == nil && !won {
		err = fmt.Errorf("ipaddress %s: is still there", ip)
	}
	return err
}

func holds(svc *corev1.Service, ip netip.Addr) bool {
	held, _ := ipalloc.Held(svc)
	return slices.ContainsFunc(held, func(s string) bool {
		have, err := netip.ParseAddr(s)
		return err == nil && have.Unmap() == ip
	})
}

// lookAtAddress removes a record of the allocators that no service holds. Others
// are their makers' business.
func (r *Repair) lookAtAddress(ctx context.Context, it item) error {
	o, err := r.objects.Address(ctx, it.Name)
	if apierrors.IsNotFound(err) {
		r.forget(it.Name)
		return nil
	}
	if err != nil {
		return err
	}
	if o.Labels[networkingv1.LabelManagedBy] != manager || o.DeletionTimestamp != nil {
		r.forget(it.Name)
		return nil
	}
	if !ofService(o) {
		r.warn(o, "IPAddressNotAllocated", "IPAddressAllocation", "IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", o.Name, o.Spec.ParentRef)
		return r.objects.Remove(ctx, o)
	}
	parent := parentOf(o)
	svc, err := r.objects.Service(ctx, parent)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	gone := err != nil
	if ip, err := netip.ParseAddr(o.Name); err == nil && !gone && holds(svc, ip) {
		r.forget(it.Name)
		return nil
	}
	// It may be about to be written.
	if left := grace - r.idleFor(o); left > 0 {
		r.queue.AddAfter(it, left)
		return nil
	}
	if gone {
		r.warn(o, "IPAddressNotAllocated", "IPAddressAllocation", "IPAddress: %s for Service %s appears to have leaked: cleaning up", o.Name, parent)
	} else {
		r.warn(o, "IPAddressWrongReference", "IPAddressAllocation", "IPAddress: %s for Service %s has a wrong reference; cleaning up", o.Name, parent)
	}
	r.forget(it.Name)
	return r.objects.Remove(ctx, o)
}

// expect remembers a new record until its service comes.
func (r *Repair) expect(o *networkingv1.IPAddress) {
	r.idleFor(o)
	r.queue.AddAfter(item{kindExpected, types.NamespacedName{Name: o.Name}}, grace)
}

// meets tells whether the records of all addresses of a new service came just
// before it, and forgets them.
func (r *Repair) meets(svc *corev1.Service) bool {
	held, _ := ipalloc.Held(svc)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ip := range held {
		if seen, ok := r.idle[ip]; !ok || seen.service != ipalloc.NameOf(svc) {
			return false
		}
	}
	for _, ip := range held {
		delete(r.idle, ip)
	}
	return true
}

// parentOf is the service of a record that is of one.
func parentOf(o *networkingv1.IPAddress) types.NamespacedName {
	return types.NamespacedName{Namespace: o.Spec.ParentRef.Namespace, Name: o.Spec.ParentRef.Name}
}

// idleFor is for how long this Repair has known a record that no service holds.
func (r *Repair) idleFor(o *networkingv1.IPAddress) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen, ok := r.idle[o.Name]; ok && seen.uid == o.UID {
		return time.Since(seen.time)
	}
	r.idle[o.Name] = since{o.UID, parentOf(o), time.Now()}
	return 0
}

func (r *Repair) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.idle, name)
}
