package keeper

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// writeStatuses writes the addresses into the Ingresses that are served, and takes them out
// of those that were and are of another class now.
func (k *keeper) writeStatuses(ctx context.Context, served []*networkingv1.Ingress) error {
	addresses, err := k.addresses(ctx)
	if err != nil {
		return err
	}
	k.publish(addresses)
	if len(addresses) == 0 && k.node != "" {
		return nil // the Node has not told its addresses yet; statuses keep what they have
	}
	is := map[types.UID]bool{}
	var errs []error
	for _, i := range served {
		is[i.UID], k.ours[i.UID] = true, true
		errs = append(errs, k.writeStatus(ctx, i, addresses))
	}
	all, err := k.ingresses.List(labels.Everything())
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, i := range all {
		if !k.ours[i.UID] || is[i.UID] {
			continue
		}
		delete(k.ours, i.UID)
		if i.DeletionTimestamp == nil && equality.Semantic.DeepEqual(i.Status.LoadBalancer.Ingress, addresses) {
			errs = append(errs, k.writeStatus(ctx, i, nil))
		}
	}
	k.keepOnly(all)
	return errors.Join(errs...)
}

func (k *keeper) writeStatus(ctx context.Context, i *networkingv1.Ingress, addresses []networkingv1.IngressLoadBalancerIngress) error {
	if ctx.Err() != nil || equality.Semantic.DeepEqual(i.Status.LoadBalancer.Ingress, addresses) {
		return nil
	}
	i = i.DeepCopy()
	i.Status.LoadBalancer.Ingress = addresses
	_, err := k.client.NetworkingV1().Ingresses(i.Namespace).UpdateStatus(ctx, i, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the change that is behind it asks for the next round
	}
	if err != nil {
		return fmt.Errorf("write the status of Ingress %s/%s: %w", i.Namespace, i.Name, err)
	}
	return nil
}

// addresses are those of the settings, or of the node.
func (k *keeper) addresses(ctx context.Context) ([]networkingv1.IngressLoadBalancerIngress, error) {
	texts := k.settings.PublishAddresses
	if len(texts) == 0 && k.node != "" {
		node, err := k.client.CoreV1().Nodes().Get(ctx, k.node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil // it is made later; the next round finds it
		}
		if err != nil {
			return nil, fmt.Errorf("get Node %s for its addresses: %w", k.node, err)
		}
		for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
			for _, a := range node.Status.Addresses {
				if a.Type == kind {
					texts = append(texts, a.Address)
				}
			}
		}
	}
	var out []networkingv1.IngressLoadBalancerIngress
	for _, text := range texts {
		out = append(out, networkingv1.IngressLoadBalancerIngress{IP: text})
	}
	return out, nil
}
