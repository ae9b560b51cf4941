package storageprotection

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// page is how many pods are listed at once.
const page = 500

// claims is the controller pvc-protection.
type claims struct {
	client  typedcorev1.CoreV1Interface
	claims  corelisters.PersistentVolumeClaimLister
	pods    corelisters.PodLister
	watches []queue.Watch
	loop    *queue.Loop[string] // of namespaces
}

// NewClaims builds pvc-protection. It has no configuration.
func NewClaims(c *controller.Context) (controller.Runner, error) {
	persistent, pods := c.Informers.Core().V1().PersistentVolumeClaims(), c.Informers.Core().V1().Pods()
	k := &claims{client: c.Client.CoreV1(), claims: persistent.Lister(), pods: pods.Lister()}
	k.loop = queue.New(c.Logger, k.sync, queue.Options[string]{Name: "pvcprotection", Workers: 2})
	k.watches = []queue.Watch{
		{Informer: persistent.Informer(), Handler: queue.On(k.claimChanged)},
		{Informer: pods.Informer(), Handler: queue.On(k.podChanged)},
	}
	return k, nil
}

// Run works until ctx ends.
func (k *claims) Run(ctx context.Context) error { return k.loop.Follow(ctx, k.watches...) }

func (k *claims) claimChanged(_, current *corev1.PersistentVolumeClaim) {
	if current != nil && ofClaims.concerns(current) {
		k.loop.Add(current.Namespace)
	}
}

func (k *claims) podChanged(old, current *corev1.Pod) {
	if lets(old, current) {
		k.loop.Add(cmp.Or(current, old).Namespace)
	}
}

// lets tells that a pod does not use claims any more, or never did.
func lets(old, current *corev1.Pod) bool {
	// One that took the place of another of its name tells nothing of that one's end.
	if old != nil && (current == nil || old.UID != current.UID) && namesClaims(old) {
		return true
	}
	return current != nil && (current.Spec.NodeName == "" || shutDown(current)) && namesClaims(current)
}

// sync looks at the claims of a namespace.
func (k *claims) sync(ctx context.Context, namespace string) error {
	all, err := k.claims.PersistentVolumeClaims(namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	known, err := k.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	var live []*corev1.Pod
	listed := false
	var faults []error
	for _, claim := range all {
		used := func() (_ bool, err error) {
			if usedByAny(known, claim) {
				return true, nil
			}
			if !listed {
				if live, err = k.list(ctx, namespace); err != nil {
					return false, err
				}
				listed = true
			}
			return usedByAny(live, claim), nil
		}
		faults = append(faults, ofClaims.keep(claim, used, func(patch []byte) error {
			_, err := k.client.PersistentVolumeClaims(namespace).Patch(ctx, claim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		}))
	}
	return errors.Join(faults...)
}

// list reads the pods that name claims from the API server.
func (k *claims) list(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := k.client.Pods(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list pods of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			if pod := &list.Items[i]; namesClaims(pod) {
				out = append(out, pod.DeepCopy()) // without the page
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

func usedByAny(pods []*corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for _, pod := range pods {
		if uses(pod, claim) {
			return true
		}
	}
	return false
}

// uses tells that a pod holds a claim. One without a node does not: no node starts a pod
// whose claim is deleted.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			if volume.PersistentVolumeClaim.ClaimName == claim.Name {
				return true
			}
		case volume.Ephemeral != nil:
			if !shutDown(pod) && ephemeral.VolumeClaimName(pod, volume) == claim.Name && ephemeral.VolumeIsForPod(pod, claim) == nil {
				return true
			}
		}
	}
	return false
}

// shutDown tells that the node is done with a pod, or that it was deleted by force: it is
// there for other finalizers only. Such a pod may wait for its claim, and must not be
// waited for.
func shutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

func namesClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}
