package podgc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/sdk/controller"
)

const (
	period     = 20 * time.Second // FIL-11
	quarantine = 40 * time.Second
	workers    = 10 // deletions at once
)

// Config of the collector, in JSON.
type Config struct {
	// TerminatedPodThreshold is how many finished pods may stay; 0 or less
	// keeps all of them. Default 12500 (FIL-11).
	TerminatedPodThreshold int `json:"terminatedPodThreshold"`
}

// New builds the collector.
func New(c *controller.Context) (controller.Runner, error) {
	config := Config{TerminatedPodThreshold: 12500}
	if len(c.Config) > 0 {
		d := json.NewDecoder(bytes.NewReader(c.Config))
		d.DisallowUnknownFields()
		if err := d.Decode(&config); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("podgc configuration: %w; it has terminatedPodThreshold", err)
		}
	}
	return build(c.Client, c.Informers, config, clock.RealClock{}, c.Logger), nil
}

type collector struct {
	client kubernetes.Interface
	config Config
	clock  clock.WithTicker
	log    *slog.Logger
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	synced []cache.InformerSynced
	// missing are the nodes that pods name and that are not there, with the
	// time they were missed first.
	missing map[string]time.Time
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, config Config, c clock.WithTicker, log *slog.Logger) *collector {
	pods, nodes := shared.Core().V1().Pods(), shared.Core().V1().Nodes()
	return &collector{
		client: client, config: config, clock: c, log: log,
		pods: pods.Lister(), nodes: nodes.Lister(),
		synced:  []cache.InformerSynced{pods.Informer().HasSynced, nodes.Informer().HasSynced},
		missing: map[string]time.Time{},
	}
}

// Run collects every period until ctx ends.
func (c *collector) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil // ctx ended
	}
	ticker := c.clock.NewTicker(period)
	defer ticker.Stop()
	for {
		if err := c.collect(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("not all pods could be collected", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// collect does all there is to do now.
func (c *collector) collect(ctx context.Context) error {
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	gone, err := c.goneNodes(ctx, pods)
	doomed := c.doomed(pods, gone)
	faults := make([]error, len(doomed), len(doomed)+1)
	workqueue.ParallelizeUntil(ctx, workers, len(doomed), func(i int) {
		if err := c.remove(ctx, doomed[i].Pod, doomed[i].condition); err != nil {
			faults[i] = fmt.Errorf("pod %s/%s: %w", doomed[i].Namespace, doomed[i].Name, err)
		}
	})
	return errors.Join(append(faults, err)...)
}

// doomed is a pod to remove, with the condition that tells why, if any.
type doomed struct {
	*corev1.Pod
	condition *corev1.PodCondition
}

// doomed returns the pods to remove, each once.
func (c *collector) doomed(pods []*corev1.Pod, gone map[string]bool) []doomed {
	var list []doomed
	taken := map[types.UID]bool{}
	take := func(p *corev1.Pod, condition *corev1.PodCondition) {
		if !taken[p.UID] {
			taken[p.UID] = true
			list = append(list, doomed{p, condition})
		}
	}
	if c.config.TerminatedPodThreshold > 0 {
		for _, p := range excess(pods, c.config.TerminatedPodThreshold) {
			take(p, nil)
		}
	}
	for _, p := range pods {
		switch {
		case gone[p.Spec.NodeName]:
			take(p, &corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: p.Generation,
				LastTransitionTime: metav1.NewTime(c.clock.Now()),
				Reason:             "DeletionByPodGC", Message: "PodGC: node no longer exists",
			})
		case p.DeletionTimestamp != nil && (p.Spec.NodeName == "" || c.outOfService(p.Spec.NodeName)):
			take(p, nil)
		}
	}
	return list
}

// excess returns the finished pods beyond the threshold: evicted ones first,
// then the oldest (PGC-3, PGC-5, PGC-6, PGC-8).
func excess(pods []*corev1.Pod, threshold int) []*corev1.Pod {
	var finished []*corev1.Pod
	for _, p := range pods {
		switch p.Status.Phase {
		case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
		default:
			finished = append(finished, p)
		}
	}
	if len(finished) <= threshold {
		return nil
	}
	slices.SortFunc(finished, func(a, b *corev1.Pod) int {
		if evicted(a) != evicted(b) {
			if evicted(a) {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return finished[:len(finished)-threshold]
}

func evicted(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted"
}

// goneNodes returns the nodes that pods name, that have been missing for the
// quarantine and that the API does not know either.
func (c *collector) goneNodes(ctx context.Context, pods []*corev1.Pod) (map[string]bool, error) {
	now, named := c.clock.Now(), map[string]bool{}
	for _, p := range pods {
		if name := p.Spec.NodeName; name != "" && !named[name] {
			if _, err := c.nodes.Get(name); apierrors.IsNotFound(err) {
				named[name] = true
			}
		}
	}
	for name := range c.missing {
		if !named[name] {
			delete(c.missing, name)
		}
	}
	gone := map[string]bool{}
	var faults []error
	for name := range named {
		since, known := c.missing[name]
		if !known {
			c.missing[name] = now
			continue
		}
		if now.Sub(since) < quarantine {
			continue
		}
		_, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			gone[name] = true
		} else if err != nil {
			faults = append(faults, fmt.Errorf("node %s: %w", name, err))
		}
	}
	return gone, errors.Join(faults...)
}

// outOfService says that the node is there, not ready and tainted as one that
// will not come back.
func (c *collector) outOfService(name string) bool {
	node, err := c.nodes.Get(name)
	if err != nil {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return false
		}
	}
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// remove marks a pod that is not finished Failed, and deletes it at once.
func (c *collector) remove(ctx context.Context, p *corev1.Pod, condition *corev1.PodCondition) error {
	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		patch, err := failedPatch(p, condition)
		if err != nil {
			return err
		}
		_, err = c.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	err := c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, and perhaps another has its name
	}
	if err == nil {
		c.log.Info("pod deleted by force", "namespace", p.Namespace, "pod", p.Name)
	}
	return err
}

// failedPatch is the patch of the status; it carries the UID, and so it fails
// for another pod of the same name.
func failedPatch(p *corev1.Pod, condition *corev1.PodCondition) ([]byte, error) {
	status := p.Status.DeepCopy()
	status.Phase, status.ObservedGeneration = corev1.PodFailed, p.Generation
	if condition != nil {
		i := slices.IndexFunc(status.Conditions, func(had corev1.PodCondition) bool { return had.Type == condition.Type })
		if i >= 0 {
			status.Conditions[i] = *condition
		} else {
			status.Conditions = append(status.Conditions, *condition)
		}
	}
	before, err := json.Marshal(corev1.Pod{Status: p.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID}, Status: *status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
}
