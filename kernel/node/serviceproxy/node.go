package serviceproxy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/sdk/proxy"
)

// toBeDeleted is the taint of a node that the cluster autoscaler is about to
// delete.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// followNode watches the proxy's own node, whose zone and fate proxies need to
// know. The factory that it returns ends with ctx.
func (f *Feeder) followNode(ctx context.Context) (informers.SharedInformerFactory, error) {
	name := f.cfg.Options.NodeName
	factory := informers.NewSharedInformerFactoryWithOptions(f.cfg.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}))
	if name == "" {
		return factory, nil
	}
	nodes := factory.Core().V1().Nodes()
	f.nodes = nodes.Lister()
	wake := func(any) {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, DeleteFunc: wake,
		UpdateFunc: func(old, now any) {
			// Heartbeats change what is of no concern here.
			was, is := old.(*corev1.Node), now.(*corev1.Node)
			if a, b := nodeOf(was), nodeOf(is); a.Zone != b.Zone || a.Ineligible != b.Ineligible {
				wake(now)
			}
		},
	}); err != nil {
		return nil, fmt.Errorf("service proxy: watch node %s: %w", name, err)
	}
	factory.StartWithContext(ctx)
	return factory, nil
}

// node is what the proxy's node is by now.
func (f *Feeder) node() *proxy.Node {
	if f.nodes == nil {
		return &proxy.Node{Zone: f.cfg.Options.Zone}
	}
	node, err := f.nodes.Get(f.cfg.Options.NodeName)
	if err != nil {
		node = nil
	}
	return nodeOf(node)
}

// nodeOf converts a node; nil is one that is gone.
func nodeOf(node *corev1.Node) *proxy.Node {
	if node == nil {
		return &proxy.Node{Ineligible: true}
	}
	out := &proxy.Node{Zone: node.Labels[corev1.LabelTopologyZone], Ineligible: node.DeletionTimestamp != nil}
	for _, t := range node.Spec.Taints {
		out.Ineligible = out.Ineligible || t.Key == toBeDeleted
	}
	return out
}
