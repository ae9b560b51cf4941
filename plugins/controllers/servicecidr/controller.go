package servicecidr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
	typednetworkingv1 "k8s.io/client-go/kubernetes/typed/networking/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// Names of upstream's controller.
const (
	manager   = "service-cidr-controller"
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	// allocators is the label of IPAddress objects that services have.
	allocators = "ipallocator.k8s.io"
)

const (
	// grace lies between the delete and the end.
	grace = 10 * time.Second
	// again is how often addresses are listed that a delete waits for.
	again = 3 * time.Second
	// page is how many addresses are listed at once.
	page = 500
)

// keeper is the controller.
type keeper struct {
	client   typednetworkingv1.NetworkingV1Interface
	ranges   networkinglisters.ServiceCIDRLister
	informer cache.SharedIndexInformer
	clock    clock.PassiveClock
	loop     *queue.Loop[string] // of names
}

// New builds the controller. It has no configuration.
func New(c *controller.Context) (controller.Runner, error) {
	ranges := c.Informers.Networking().V1().ServiceCIDRs()
	k := &keeper{client: c.Client.NetworkingV1(), ranges: ranges.Lister(), informer: ranges.Informer(), clock: clock.RealClock{}}
	k.loop = queue.New(c.Logger, k.sync, queue.Options[string]{Name: "servicecidrs"})
	return k, nil
}

// Run works until ctx ends.
func (k *keeper) Run(ctx context.Context) error {
	return k.loop.Follow(ctx, queue.Watch{Informer: k.informer, Handler: queue.Every(func(o *networkingv1.ServiceCIDR) { k.loop.Add(o.Name) })})
}

func (k *keeper) sync(ctx context.Context, name string) error {
	o, err := k.ranges.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.DeletionTimestamp != nil {
		return k.end(ctx, o)
	}
	if !slices.Contains(o.Finalizers, finalizer) {
		if err := k.patch(ctx, name, `{"metadata":{"finalizers":["`+finalizer+`"]}}`); err != nil {
			return err
		}
	}
	return k.say(ctx, o, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
}

// end takes the finalizer away when nobody needs the range.
func (k *keeper) end(ctx context.Context, o *networkingv1.ServiceCIDR) error {
	if !slices.Contains(o.Finalizers, finalizer) {
		return nil
	}
	address, err := k.orphan(ctx, o)
	if err != nil {
		return err
	}
	if address != "" {
		if err := k.say(ctx, o, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		}); err != nil {
			return err
		}
		return &queue.After{Delay: again, Reason: "address " + address + " is in use"}
	}
	if left := grace - k.clock.Since(o.DeletionTimestamp.Time); left > 0 {
		return &queue.After{Delay: left, Reason: "a service may be about to be written"}
	}
	return k.patch(ctx, o.Name, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+finalizer+`"]}}`)
}

func (k *keeper) patch(ctx context.Context, name, patch string) error {
	_, err := k.client.ServiceCIDRs().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("servicecidr %s: finalizer: %w", name, err)
	}
	return nil
}

// say writes the condition Ready, unless it says so already.
func (k *keeper) say(ctx context.Context, o *networkingv1.ServiceCIDR, c metav1.Condition) error {
	have := meta.FindStatusCondition(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if have != nil && have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return nil
	}
	condition := applymetav1.Condition().WithType(networkingv1.ServiceCIDRConditionReady).WithStatus(c.Status).
		WithReason(c.Reason).WithMessage(c.Message).WithLastTransitionTime(metav1.NewTime(k.clock.Now()))
	_, err := k.client.ServiceCIDRs().ApplyStatus(ctx,
		applynetworkingv1.ServiceCIDR(o.Name).WithStatus(applynetworkingv1.ServiceCIDRStatus().WithConditions(condition)),
		metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("servicecidr %s: status: %w", o.Name, err)
	}
	return nil
}

// orphan is an address of a service that no other range would have, or "".
func (k *keeper) orphan(ctx context.Context, o *networkingv1.ServiceCIDR) (string, error) {
	all, err := k.client.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list servicecidrs: %w", err)
	}
	var others []netip.Prefix
	for i := range all.Items {
		if other := &all.Items[i]; other.Name != o.Name && other.DeletionTimestamp == nil {
			others = append(others, prefixes(other)...)
		}
	}
	// What lies in another as a whole leaves nothing behind.
	alone := slices.DeleteFunc(prefixes(o), func(own netip.Prefix) bool {
		return slices.ContainsFunc(others, func(p netip.Prefix) bool { return p.Overlaps(own) && p.Bits() <= own.Bits() })
	})
	if len(alone) == 0 {
		return "", nil
	}
	options := metav1.ListOptions{LabelSelector: labels.Set{networkingv1.LabelManagedBy: allocators}.String(), Limit: page}
	for {
		list, err := k.client.IPAddresses().List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("list ipaddresses: %w", err)
		}
		for i := range list.Items {
			ip, err := netip.ParseAddr(list.Items[i].Name)
			in := func(p netip.Prefix) bool { return holds(p, ip) }
			if err == nil && slices.ContainsFunc(alone, in) && !slices.ContainsFunc(others, in) {
				return ip.String(), nil
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return "", nil
		}
	}
}

func prefixes(o *networkingv1.ServiceCIDR) []netip.Prefix {
	var out []netip.Prefix
	for _, cidr := range o.Spec.CIDRs {
		if p, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// holds tells whether a range has an address to give: all but the network address
// and, in IPv4, the broadcast address.
func holds(r netip.Prefix, ip netip.Addr) bool {
	return r.Contains(ip) && ip != r.Masked().Addr() && (!ip.Is4() || r.Contains(ip.Next()))
}
