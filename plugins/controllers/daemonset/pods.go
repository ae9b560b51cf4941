package daemonset

import (
	"cmp"
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/ownership"
)

// byNode is the index of the pods of daemon sets by the node that is meant.
const byNode = "pintle.dev/daemonset-node"

// indexPods adds the index to the shared informer, once.
func indexPods(informer cache.SharedIndexInformer) error {
	err := informer.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		if ref := metav1.GetControllerOfNoCopy(pod); ref == nil || ref.Kind != gvk.Kind {
			return nil, nil
		}
		if node := target(pod); node != "" {
			return []string{node}, nil
		}
		return nil, nil
	}})
	if _, there := informer.GetIndexer().GetIndexers()[byNode]; there {
		return nil
	}
	return err
}

// claim returns the set's pods after adoptions and releases.
func (k *keeper) claim(ctx context.Context, ds *appsv1.DaemonSet, selector labels.Selector) ([]*corev1.Pod, error) {
	owned, err := ownership.Children[*corev1.Pod](k.pods, ds.UID)
	if err != nil {
		return nil, err
	}
	orphans, err := ownership.Orphans[*corev1.Pod](k.pods, ds.Namespace)
	if err != nil {
		return nil, err
	}
	return ownership.Claim(ctx, &ownership.Claimer{
		Owner: ds, Kind: gvk, Selector: selector, Fresh: k.fresh(ds),
		Patch: func(ctx context.Context, namespace, name string, patch []byte) error {
			p, err := k.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			if err == nil {
				k.written.pod(ds.Namespace+"/"+ds.Name, ds.UID, p.ResourceVersion)
			}
			return err
		},
	}, append(owned, orphans...), nil)
}

func (k *keeper) fresh(ds *appsv1.DaemonSet) func(ctx context.Context) (metav1.Object, error) {
	return func(ctx context.Context) (metav1.Object, error) {
		return k.client.AppsV1().DaemonSets(ds.Namespace).Get(ctx, ds.Name, metav1.GetOptions{})
	}
}

// podsByNode returns the set's pods by the node that is meant. Pods that ended and
// are being deleted are left out, unless all is set.
func (r *run) podsByNode(ctx context.Context, all bool) (map[string][]*corev1.Pod, error) {
	pods, err := r.claim(ctx, r.ds, r.selector)
	if err != nil {
		return nil, err
	}
	nodes := map[string][]*corev1.Pod{}
	for _, p := range pods {
		ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
		if !all && ended && p.DeletionTimestamp != nil {
			continue
		}
		if node := target(p); node != "" {
			nodes[node] = append(nodes[node], p)
		}
	}
	return nodes, nil
}

// oldestFirst sorts pods that are bound before those that are not, and then by age.
func oldestFirst(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		if boundA, boundB := a.Spec.NodeName != "", b.Spec.NodeName != ""; boundA != boundB {
			if boundA {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

func readyCondition(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// available says whether a pod has been ready for long enough.
func (r *run) available(p *corev1.Pod) bool {
	c := readyCondition(p)
	if c == nil {
		return false
	}
	least := time.Duration(r.ds.Spec.MinReadySeconds) * time.Second
	return least == 0 || !c.LastTransitionTime.IsZero() && c.LastTransitionTime.Add(least).Before(r.now)
}

func podKey(p *corev1.Pod) string { return p.Namespace + "/" + p.Name + "/" + string(p.UID) }
