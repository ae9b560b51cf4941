package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const (
	workers    = 30
	source     = "cidrAllocator"
	patchTries = 3
)

// New builds the controller. Its configuration is Config as JSON.
func New(c *controller.Context) (controller.Runner, error) {
	cfg, err := readConfig(c.Config)
	if err != nil {
		return nil, err
	}
	if !cfg.AllocateNodeCIDRs {
		return controller.RunnerFunc(func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}), nil
	}
	register()
	pools, err := cfg.pools()
	if err != nil {
		return nil, err
	}
	return build(c.Client, c.Informers, pools, c.Logger), nil
}

// ipam is the controller.
type ipam struct {
	*queue.Frame[string] // of nodes
	client               kubernetes.Interface
	nodes                corelisters.NodeLister
	ranges               *allocator
	log                  *slog.Logger
	known                sync.Once // the ranges of all nodes are taken
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, pools []*pool, log *slog.Logger) *ipam {
	nodes := shared.Core().V1().Nodes()
	i := &ipam{client: client, nodes: nodes.Lister(), ranges: newAllocator(pools), log: log}
	i.Frame = queue.NewFrame(client, log, source, i.sync, queue.Options[string]{Name: "cidrallocator_node", Workers: workers})
	i.Watch(nodes.Informer(), queue.On(i.changed))
	return i
}

// changed enqueues a node that is new or gone, lacks a range or has another one.
func (i *ipam) changed(old, node *corev1.Node) {
	switch {
	case node == nil:
		i.Add(old.Name)
	case old == nil || old.UID != node.UID || len(node.Spec.PodCIDRs) == 0 || !slices.Equal(old.Spec.PodCIDRs, node.Spec.PodCIDRs):
		i.Add(node.Name)
	}
}

// sync sees to it that a node has its ranges, and that one which is gone has none.
func (i *ipam) sync(ctx context.Context, name string) error {
	i.known.Do(i.fill)
	node, err := i.nodes.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		i.wake(i.ranges.release(name))
		return nil
	case err != nil:
		return err
	case len(node.Spec.PodCIDRs) > 0:
		i.occupy(node)
		return nil
	case node.DeletionTimestamp != nil:
		return nil
	}
	return i.assign(ctx, node)
}

// fill takes the ranges of all nodes, before any is given.
func (i *ipam) fill() {
	nodes, err := i.nodes.List(labels.Everything())
	if err != nil {
		i.log.Error("nodes are not read", "error", err)
	}
	for _, node := range nodes {
		if len(node.Spec.PodCIDRs) > 0 {
			i.occupy(node)
		}
	}
}

func (i *ipam) occupy(node *corev1.Node) {
	o := i.ranges.occupy(node)
	if len(o.outside) > 0 {
		i.log.Debug("a node has a range of pod IPs outside of clusterCIDR", "node", node.Name, "ranges", o.outside)
	}
	if len(o.shared) > 0 {
		i.log.Warn("a node has a range of pod IPs that another node or services have too, in part or whole", "node", node.Name, "ranges", o.shared)
	}
	i.wake(o.freed)
}

// wake lets nodes try again for which there are blocks.
func (i *ipam) wake(blocks int) {
	for _, name := range i.ranges.wake(blocks) {
		i.Add(name)
	}
}

// assign writes the ranges that are chosen for a node.
func (i *ipam) assign(ctx context.Context, node *corev1.Node) error {
	cidrs, err := i.ranges.assign(node)
	if errors.Is(err, errNone) {
		i.tell(node, "CIDRNotAvailable")
	}
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID}, // another node of this name is not meant
		"spec":     map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs},
	})
	if err != nil {
		return err
	}
	for range patchTries {
		if _, err = i.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err == nil {
			return nil
		}
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("node %s: %w", node.Name, err) // its blocks go with it
		}
	}
	i.tell(node, "CIDRAssignmentFailed")
	return fmt.Errorf("node %s: assign %v: %w", node.Name, cidrs, err)
}

// tell writes an event with kube-controller-manager's words.
func (i *ipam) tell(node *corev1.Node, status string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	i.Recorder.Eventf(ref, corev1.EventTypeNormal, status, "Node %s status is now: %s", node.Name, status)
}
