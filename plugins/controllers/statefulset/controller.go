package statefulset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/plugins/controllers/consistency"
	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/revisions"
	"pintle.dev/pintle/sdk/controller"
)

var (
	gvk     = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
)

// Resources as the store of what was written names them.
const (
	podResource   = "pods"
	claimResource = "persistentvolumeclaims"
	setResource   = "statefulsets"
)

// New builds the controller of StatefulSets. Its configuration is Config as JSON.
func New(c *controller.Context) (controller.Runner, error) {
	cfg, err := readConfig(c.Config)
	if err != nil {
		return nil, err
	}
	return build(c.Client, c.Informers, cfg, c.Logger)
}

type keeper struct {
	*queue.Frame[string]
	client  kubernetes.Interface
	sets    cache.Indexer
	pods    cache.Indexer
	claims  cache.Indexer
	history *revisions.History
	memory  *revisions.Memory
	written *consistency.Store
	clock   clock.PassiveClock
	log     *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, cfg Config, log *slog.Logger) (*keeper, error) {
	sets := shared.Apps().V1().StatefulSets().Informer()
	history := shared.Apps().V1().ControllerRevisions().Informer()
	pods := shared.Core().V1().Pods().Informer()
	claims := shared.Core().V1().PersistentVolumeClaims().Informer()
	if err := ownership.Index(pods); err != nil {
		return nil, err
	}
	h, err := revisions.NewHistory(client, history, gvk)
	if err != nil {
		return nil, err
	}
	k := &keeper{
		client: client, clock: clock.RealClock{}, log: log, history: h, memory: revisions.NewMemory(),
		sets: sets.GetIndexer(), pods: pods.GetIndexer(), claims: claims.GetIndexer(),
		written: consistency.New(map[string]consistency.Cache{
			podResource: pods.GetIndexer(), claimResource: claims.GetIndexer(), setResource: sets.GetIndexer(),
		}),
	}
	k.Frame = queue.NewFrame(client, log, "statefulset-controller", k.sync, queue.Options[string]{Name: "statefulset", Workers: cfg.ConcurrentStatefulSetSyncs})
	k.Watch(sets, queue.Every(k.add))
	k.Watch(pods, queue.On(k.podChanged))
	k.Watch(claims, queue.On(k.claimChanged))
	k.Watch(history, nil)
	return k, nil
}

func (k *keeper) add(set *appsv1.StatefulSet) { k.Add(queue.Key(set)) }

// lookup returns the cached set, nil if there is none.
func (k *keeper) lookup(key string) (*appsv1.StatefulSet, error) {
	obj, there, err := k.sets.GetByKey(key)
	if err != nil || !there {
		return nil, err
	}
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return nil, fmt.Errorf("stateful set %s: the cache has a %T", key, obj)
	}
	return set, nil
}

// claim returns the cached claim, nil if there is none.
func (k *keeper) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	return ownership.Cached[*corev1.PersistentVolumeClaim](k.claims, namespace+"/"+name)
}

func (k *keeper) owner(namespace string, ref *metav1.OwnerReference) *appsv1.StatefulSet {
	return ownership.Owner[*appsv1.StatefulSet](k.sets, gvk.Kind, namespace, ref)
}

func (k *keeper) inNamespace(namespace string) []*appsv1.StatefulSet {
	objs, err := k.sets.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil
	}
	var list []*appsv1.StatefulSet
	for _, obj := range objs {
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			list = append(list, set)
		}
	}
	return list
}

// matching enqueues all that might adopt an orphan.
func (k *keeper) matching(pod *corev1.Pod) {
	for _, set := range ownership.Adopters(k.sets, pod, func(set *appsv1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector }) {
		k.add(set)
	}
}

func (k *keeper) podChanged(old, pod *corev1.Pod) {
	if old != nil && pod != nil && old.ResourceVersion == pod.ResourceVersion {
		return
	}
	if pod == nil {
		if set := k.owner(old.Namespace, metav1.GetControllerOfNoCopy(old)); set != nil {
			k.add(set)
		}
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	moved, relabelled := old == nil, old == nil
	if old != nil {
		was := metav1.GetControllerOfNoCopy(old)
		moved = (was == nil) != (ref == nil) || was != nil && was.UID != ref.UID
		relabelled = !maps.Equal(old.Labels, pod.Labels)
		if set := k.owner(old.Namespace, was); moved && set != nil {
			k.add(set)
		}
	}
	switch {
	case ref != nil:
		set := k.owner(pod.Namespace, ref)
		if set == nil {
			return
		}
		k.add(set)
		if set.Spec.MinReadySeconds > 0 && readiness(pod) != nil && (old == nil || readiness(old) == nil) {
			k.AddAfter(queue.Key(set), time.Duration(set.Spec.MinReadySeconds)*time.Second)
		}
	case pod.DeletionTimestamp == nil && (moved || relabelled):
		k.matching(pod)
	}
}

// claimChanged enqueues the set that waits for the end of a claim, or of its owner.
func (k *keeper) claimChanged(old, claim *corev1.PersistentVolumeClaim) {
	if old == nil || claim != nil && slices.EqualFunc(old.OwnerReferences, claim.OwnerReferences,
		func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
		return
	}
	for _, set := range k.inNamespace(old.Namespace) {
		for i := range set.Spec.VolumeClaimTemplates {
			if strings.HasPrefix(old.Name, set.Spec.VolumeClaimTemplates[i].Name+"-"+set.Name+"-") {
				k.add(set)
			}
		}
	}
}

// sync does what the set needs next and writes its status.
func (k *keeper) sync(ctx context.Context, key string) error {
	if err := k.written.Ready(key); err != nil {
		return queue.Quiet(err)
	}
	set, err := k.lookup(key)
	if err != nil {
		return err
	}
	if set == nil {
		k.written.Forget(key)
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		k.log.Error("selector is not valid", "key", key, "error", err)
		return nil
	}
	set = set.DeepCopy()
	fresh := func(ctx context.Context) (metav1.Object, error) {
		return k.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	}
	all, err := k.history.List(set, selector)
	if err != nil {
		return err
	}
	if err := k.history.Adopt(ctx, set, all, fresh); err != nil {
		return err
	}
	pods, err := k.members(ctx, set, selector, fresh)
	if err != nil {
		return err
	}
	now := k.clock.Now()
	status, err := k.update(ctx, set, pods, all, now)
	if err != nil {
		return err
	}
	if set.Spec.MinReadySeconds > 0 && status.ReadyReplicas != status.AvailableReplicas {
		k.AddAfter(key, nextLook(pods, set.Spec.MinReadySeconds, now))
	}
	return nil
}

// members returns the set's pods after adoptions and releases.
func (k *keeper) members(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector, fresh func(context.Context) (metav1.Object, error)) ([]*corev1.Pod, error) {
	owned, err := ownership.Children[*corev1.Pod](k.pods, set.UID)
	if err != nil {
		return nil, err
	}
	orphans, err := ownership.Orphans[*corev1.Pod](k.pods, set.Namespace)
	if err != nil {
		return nil, err
	}
	claimer := &ownership.Claimer{
		Owner: set, Kind: gvk, Selector: selector, Fresh: fresh,
		Patch: func(ctx context.Context, namespace, name string, patch []byte) error {
			pod, err := k.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			if err == nil {
				k.written.Wrote(queue.Key(set), set.UID, podResource, pod)
			}
			return err
		},
	}
	return ownership.Claim(ctx, claimer, append(owned, orphans...), func(p *corev1.Pod) bool {
		_, member := ordinalOf(set, p)
		return member
	})
}

// update finds the revisions, has the pods brought nearer to them, writes the
// status, also after a failure, and drops old revisions.
func (k *keeper) update(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, all []*appsv1.ControllerRevision, now time.Time) (*appsv1.StatefulSetStatus, error) {
	current, update, collisions, err := k.revisions(ctx, set, all)
	if err != nil {
		return nil, err
	}
	p, err := k.newPass(set, current, update, now)
	if err != nil {
		return nil, err
	}
	p.status = &appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, CurrentRevision: current.Name, UpdateRevision: update.Name, CollisionCount: &collisions,
	}
	err = p.run(ctx, pods)
	statusErr := k.writeStatus(ctx, set, p.status)
	live := map[string]bool{current.Name: true, update.Name: true}
	for _, pod := range pods {
		live[revisionOf(pod)] = true
	}
	truncateErr := k.history.Truncate(ctx, all, historyLimit(set), func(r *appsv1.ControllerRevision) bool { return live[r.Name] })
	return p.status, errors.Join(err, statusErr, truncateErr)
}
