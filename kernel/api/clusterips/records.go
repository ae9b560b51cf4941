package clusterips

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/api/resources/ipalloc"
	kernelstorage "pintle.dev/pintle/kernel/api/storage"
)

// manager is the value of networkingv1.LabelManagedBy of records, as upstream's.
const manager = "ipallocator.k8s.io"

// Records are the IPAddress objects of services, in the stores of the kinds. It is
// safe for concurrent use.
type Records struct {
	addresses, ranges, services *genericregistry.Store
}

var _ ipalloc.Addresses = (*Records)(nil)

// Use says where the objects are, before anything else is called.
func (r *Records) Use(addresses, ranges, services *genericregistry.Store) {
	r.addresses, r.ranges, r.services = addresses, ranges, services
}

// record is the IPAddress of a service's address.
func record(ip netip.Addr, service types.NamespacedName) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: ip.String(), UID: uuid.NewUUID(), CreationTimestamp: metav1.Now().Rfc3339Copy(), Labels: labelsOf(ip),
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: service.Namespace, Name: service.Name,
		}},
	}
}

func labelsOf(ip netip.Addr) map[string]string {
	family := corev1.IPv6Protocol
	if ip.Is4() {
		family = corev1.IPv4Protocol
	}
	return map[string]string{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: manager}
}

// names tells whether a record is of a service.
func names(o *networkingv1.IPAddress, service types.NamespacedName) bool {
	p := o.Spec.ParentRef
	return ofService(o) && p.Namespace == service.Namespace && p.Name == service.Name
}

// ofService tells whether a record is of some service.
func ofService(o *networkingv1.IPAddress) bool {
	p := o.Spec.ParentRef
	return p != nil && p.Group == "" && p.Resource == "services"
}

// Take implements ipalloc.Addresses.
func (r *Records) Take(ctx context.Context, ip netip.Addr, service types.NamespacedName) (bool, error) {
	o := record(ip, service)
	key, err := r.addresses.KeyFunc(ctx, o.Name)
	if err != nil {
		return false, fmt.Errorf("ipaddress %s: %w", o.Name, err)
	}
	// It is as it would be read, and nobody else has it.
	ctx = kernelstorage.WithSharedResult(kernelstorage.WithGivenObject(ctx, func(runtime.Object) {}))
	switch err := r.addresses.Storage.Create(ctx, key, o, &networkingv1.IPAddress{}, 0, false); {
	case storage.IsExist(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ipaddress %s: create: %w", o.Name, err)
	}
	return true, nil
}

// errAnother keeps a record that is not what was asked for.
var errAnother = errors.New("it is another one")

// Give implements ipalloc.Addresses.
func (r *Records) Give(ctx context.Context, ip netip.Addr, service types.NamespacedName) error {
	return r.remove(ctx, ip.String(), func(o *networkingv1.IPAddress) bool { return names(o, service) })
}

// Remove deletes a record unless it was replaced since.
func (r *Records) Remove(ctx context.Context, o *networkingv1.IPAddress) error {
	return r.remove(ctx, o.Name, func(now *networkingv1.IPAddress) bool { return now.UID == o.UID })
}

func (r *Records) remove(ctx context.Context, name string, right func(*networkingv1.IPAddress) bool) error {
	ctx = request.WithRequestInfo(request.WithNamespace(ctx, ""), &request.RequestInfo{
		IsResourceRequest: true, Verb: "delete", APIPrefix: "apis", APIGroup: networkingv1.GroupName, APIVersion: "v1", Resource: "ipaddresses", Name: name,
	})
	_, _, err := r.addresses.Delete(ctx, name, func(_ context.Context, obj runtime.Object) error {
		if o, ok := obj.(*networkingv1.IPAddress); !ok || !right(o) {
			return errAnother
		}
		return nil
	}, &metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) || errors.Is(err, errAnother) {
		return nil
	}
	return fmt.Errorf("ipaddress %s: delete: %w", name, err)
}

// list reads all objects of a store; those that cannot be read are left out, and
// their keys stay taken.
func list(ctx context.Context, store *genericregistry.Store, into runtime.Object) error {
	ctx = kernelstorage.WithoutCorruptObjects(request.WithNamespace(ctx, ""))
	return store.Storage.GetList(ctx, store.KeyRootFunc(ctx), storage.ListOptions{Predicate: storage.Everything, Recursive: true}, into)
}

// Taken implements ipalloc.Addresses.
func (r *Records) Taken(ctx context.Context) ([]netip.Addr, error) {
	all := &networkingv1.IPAddressList{}
	if err := list(ctx, r.addresses, all); err != nil {
		return nil, fmt.Errorf("list ipaddresses: %w", err)
	}
	out := make([]netip.Addr, 0, len(all.Items))
	for i := range all.Items {
		if ip, err := netip.ParseAddr(all.Items[i].Name); err == nil {
			out = append(out, ip)
		}
	}
	return out, nil
}

// Ranges implements ipalloc.Addresses: those that are ready, the oldest first.
func (r *Records) Ranges(ctx context.Context) ([]netip.Prefix, error) {
	return r.readRanges(ctx, ready)
}

// AllRanges are those of all ServiceCIDRs.
func (r *Records) AllRanges(ctx context.Context) ([]netip.Prefix, error) {
	return r.readRanges(ctx, func(*networkingv1.ServiceCIDR) bool { return true })
}

func (r *Records) readRanges(ctx context.Context, want func(*networkingv1.ServiceCIDR) bool) ([]netip.Prefix, error) {
	all := &networkingv1.ServiceCIDRList{}
	if err := list(ctx, r.ranges, all); err != nil {
		return nil, fmt.Errorf("list servicecidrs: %w", err)
	}
	slices.SortStableFunc(all.Items, func(a, b networkingv1.ServiceCIDR) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var out []netip.Prefix
	for i := range all.Items {
		if !want(&all.Items[i]) {
			continue
		}
		for _, cidr := range all.Items[i].Spec.CIDRs {
			// Two ServiceCIDRs may have one range.
			if p, err := netip.ParsePrefix(cidr); err == nil && !slices.Contains(out, p.Masked()) {
				out = append(out, p.Masked())
			}
		}
	}
	return out, nil
}

// ready: without a condition it is, since the controller need not run.
func ready(o *networkingv1.ServiceCIDR) bool {
	if o.DeletionTimestamp != nil {
		return false
	}
	for _, c := range o.Status.Conditions {
		if c.Type == networkingv1.ServiceCIDRConditionReady {
			return c.Status == metav1.ConditionTrue
		}
	}
	return true
}

// Address reads a record.
func (r *Records) Address(ctx context.Context, name string) (*networkingv1.IPAddress, error) {
	return get[*networkingv1.IPAddress](ctx, r.addresses, types.NamespacedName{Name: name})
}

// Service reads a service.
func (r *Records) Service(ctx context.Context, name types.NamespacedName) (*corev1.Service, error) {
	return get[*corev1.Service](ctx, r.services, name)
}

// Services reads all services.
func (r *Records) Services(ctx context.Context) ([]corev1.Service, error) {
	all := &corev1.ServiceList{}
	if err := list(ctx, r.services, all); err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	return all.Items, nil
}

func get[T runtime.Object](ctx context.Context, store *genericregistry.Store, name types.NamespacedName) (T, error) {
	obj, err := store.Get(request.WithNamespace(ctx, name.Namespace), name.Name, &metav1.GetOptions{})
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}
