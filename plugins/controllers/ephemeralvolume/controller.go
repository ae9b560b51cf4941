package ephemeralvolume

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
)

const (
	standardWorkers = 5
	failedBinding   = "FailedBinding"
)

// byClaim is the index of pods by the claims of their ephemeral volumes.
const byClaim = "pintle.dev/ephemeral-claims"

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// New builds the controller. Its one key is concurrentEphemeralVolumeSyncs.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentEphemeralVolumeSyncs", standardWorkers)
	if err != nil {
		return nil, err
	}
	return build(c.Client, c.Informers, workers, c.Logger)
}

type keeper struct {
	*queue.Frame[string] // of pods
	client               kubernetes.Interface
	pods                 corelisters.PodLister
	indexer              cache.Indexer
	claims               corelisters.PersistentVolumeClaimLister
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, workers int, log *slog.Logger) (*keeper, error) {
	pods, claims := shared.Core().V1().Pods(), shared.Core().V1().PersistentVolumeClaims()
	if err := indexPods(pods.Informer()); err != nil {
		return nil, err
	}
	k := &keeper{client: client, pods: pods.Lister(), indexer: pods.Informer().GetIndexer(), claims: claims.Lister()}
	k.Frame = queue.NewFrame(client, log, "ephemeral_volume", k.sync, queue.Options[string]{Name: "ephemeral_volume", Workers: workers})
	k.Watch(pods.Informer(), queue.On(func(old, pod *corev1.Pod) {
		if old == nil && pod != nil && pod.DeletionTimestamp == nil && len(claimKeys(pod)) > 0 {
			k.Add(queue.Key(pod))
		}
	}))
	k.Watch(claims.Informer(), queue.On(func(old, claim *corev1.PersistentVolumeClaim) {
		if old != nil && claim == nil {
			k.claimEnded(old)
		}
	}))
	return k, nil
}

// indexPods adds the index to the shared informer, once.
func indexPods(informer cache.SharedIndexInformer) error {
	err := informer.AddIndexers(cache.Indexers{byClaim: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		return claimKeys(pod), nil
	}})
	if _, there := informer.GetIndexer().GetIndexers()[byClaim]; there {
		return nil
	}
	return err
}

// claimKeys are the claims of a pod's ephemeral volumes.
func claimKeys(pod *corev1.Pod) []string {
	var keys []string
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil {
			keys = append(keys, pod.Namespace+"/"+ephemeral.VolumeClaimName(pod, v))
		}
	}
	return keys
}

// claimEnded enqueues the pods that wait for the name of a claim.
func (k *keeper) claimEnded(claim *corev1.PersistentVolumeClaim) {
	objs, err := k.indexer.ByIndex(byClaim, queue.Key(claim))
	if err != nil {
		return
	}
	for _, obj := range objs {
		if pod, ok := obj.(*corev1.Pod); ok {
			k.Add(queue.Key(pod))
		}
	}
}

// sync makes the claims that a pod lacks.
func (k *keeper) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := k.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		if err := k.claim(ctx, pod, v); err != nil {
			k.Recorder.Event(pod, corev1.EventTypeWarning, failedBinding, fmt.Sprintf("ephemeral volume %s: %v", v.Name, err))
			return fmt.Errorf("pod %s, ephemeral volume %s: %w", key, v.Name, err)
		}
	}
	return nil
}

// claim makes the claim of a volume, unless the pod has it. A claim of another owner is an error.
func (k *keeper) claim(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	name := ephemeral.VolumeClaimName(pod, v)
	have, err := k.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err == nil {
		return ephemeral.VolumeIsForPod(pod, have)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	template := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, podKind)},
		},
		Spec: template.Spec,
	}
	if _, err := k.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
