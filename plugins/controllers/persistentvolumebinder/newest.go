package persistentvolumebinder

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// newest keeps the newest known version of each object: a cache that follows the API server
// is behind what was just written. Objects in it must not be changed.
type newest[T metav1.Object] struct{ store cache.Indexer }

func newNewest[T metav1.Object](indexers cache.Indexers) newest[T] {
	return newest[T]{cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
}

// put keeps obj unless a newer version is known, and says whether it kept it.
func (n newest[T]) put(obj T) bool {
	if old, there := n.get(queue.Key(obj)); there {
		order, err := resourceversion.CompareResourceVersion(old.GetResourceVersion(), obj.GetResourceVersion())
		if err == nil && order > 0 {
			return false
		}
	}
	return n.store.Add(obj) == nil
}

func (n newest[T]) get(key string) (obj T, there bool) {
	o, there, err := n.store.GetByKey(key)
	if err != nil || !there {
		return obj, false
	}
	obj, there = o.(T)
	return obj, there
}

func (n newest[T]) drop(obj T) { _ = n.store.Delete(obj) } // an indexer fails for objects without a key only

// byModes is the index of volumes by the set of their access modes.
const byModes = "accessmodes"

// modeOrder gives each access mode its bit.
var modeOrder = []corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
}

// modeSet is a set of access modes, a bit each.
type modeSet uint8

func modesOf(modes []corev1.PersistentVolumeAccessMode) (s modeSet) {
	for _, mode := range modes {
		for bit, known := range modeOrder {
			if mode == known {
				s |= 1 << bit
			}
		}
	}
	return s
}

func (s modeSet) key() string { return strconv.Itoa(int(s)) }

func indexByModes(obj any) ([]string, error) {
	pv, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return nil, nil
	}
	return []string{modesOf(pv.Spec.AccessModes).key()}, nil
}

// byClaim is the index of pods by the claims that they name.
const byClaim = "pintle.dev/claims-of-pods"

// indexPods adds the index to the shared informer, once, however many controllers ask.
func indexPods(informer cache.SharedIndexInformer) error {
	err := informer.AddIndexers(cache.Indexers{byClaim: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		var keys []string
		for i := range pod.Spec.Volumes {
			switch v := &pod.Spec.Volumes[i]; {
			case v.PersistentVolumeClaim != nil:
				keys = append(keys, pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
			case v.Ephemeral != nil:
				keys = append(keys, pod.Namespace+"/"+pod.Name+"-"+v.Name)
			}
		}
		return keys, nil
	}})
	if _, there := informer.GetIndexer().GetIndexers()[byClaim]; there {
		return nil
	}
	return err
}

// ended says whether a pod uses its volumes no more.
func ended(pod *corev1.Pod) bool {
	status := &pod.Status
	if status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded {
		return true
	}
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(
		slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses),
		func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil && s.State.Waiting == nil })
}

func claimKey(ref *corev1.ObjectReference) string { return ref.Namespace + "/" + ref.Name }

func plural(names []string) string {
	if len(names) == 1 {
		return "pod " + names[0]
	}
	return "pods " + strings.Join(names, ",")
}
