package resourceclaim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"
)

// syncPod makes the claims that a pod lacks, records them, and reserves them where the scheduler does not.
func (k *keeper) syncPod(ctx context.Context, key cache.ObjectName) error {
	pod, err := k.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && (pod.DeletionTimestamp != nil || done(pod)) {
		return nil
	}
	if err != nil {
		return err
	}
	made := map[string]string{} // names of claims that the status does not have, by entry
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name, err := k.provide(ctx, pod, entry)
		if err != nil {
			k.Recorder.Event(pod, corev1.EventTypeWarning, failedCreation, fmt.Sprintf("PodResourceClaim %s: %v", entry.Name, err))
			return fmt.Errorf("pod %s, PodResourceClaim %s: %w", key, entry.Name, err)
		}
		if name != "" {
			made[entry.Name] = name
		}
	}
	if len(made) > 0 {
		if err := k.record(ctx, pod, made); err != nil {
			return err
		}
	}
	if pod.Spec.NodeName == "" {
		return nil // the scheduler reserves
	}
	return k.reserve(ctx, pod)
}

// provide sees to it that an entry of a pod has its claim. It returns the claim's name where the status lacks it.
func (k *keeper) provide(ctx context.Context, pod *corev1.Pod, entry *corev1.PodResourceClaim) (string, error) {
	recorded, owned, err := resourceclaim.Name(pod, entry)
	switch {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
	case err != nil:
		return "", fmt.Errorf("checking for claim before creating it: %w", err)
	case recorded == nil || !owned:
		return "", nil // none is needed, or the user makes it
	case *recorded != "":
		there, err := k.has(ctx, pod, *recorded)
		if there || err != nil {
			return "", err
		}
	}
	if entry.ResourceClaimTemplateName == nil {
		return "", nil
	}
	claim, err := k.find(pod, entry.Name, ptr.Deref(recorded, ""))
	if err != nil {
		return "", fmt.Errorf("finding ResourceClaim for claim %s in pod %s/%s failed: %w", entry.Name, pod.Namespace, pod.Name, err)
	}
	if claim == nil {
		if claim, err = k.create(ctx, pod, entry); err != nil {
			return "", err
		}
	}
	return claim.Name, nil
}

// has says whether the claim that a pod's status names is there and is the pod's. The API server has the last word:
// a claim that was made a moment ago may not have come by the informer.
func (k *keeper) has(ctx context.Context, pod *corev1.Pod, name string) (bool, error) {
	claim, err := k.claims.ResourceClaims(pod.Namespace).Get(name)
	if apierrors.IsNotFound(err) {
		claim, err = k.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get ResourceClaim %s/%s: %w", pod.Namespace, name, err)
	}
	if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
		k.log.Warn("a pod's claim is not its own and gets a successor", "pod", podKey(pod), "claim", name, "error", err)
		return false, nil
	}
	return true, nil
}

// find is the oldest claim that was made for an entry of a pod and is not being deleted; nil: there is none. That of
// the name lost is not there any more, or not the pod's.
func (k *keeper) find(pod *corev1.Pod, entry, lost string) (*resourcev1.ResourceClaim, error) {
	objs, err := k.made.ByIndex(byOwner, string(pod.UID))
	if err != nil {
		return nil, err
	}
	var found *resourcev1.ResourceClaim
	for _, obj := range objs {
		claim, ok := obj.(*resourcev1.ResourceClaim)
		if !ok || claim.Name == lost || claim.Namespace != pod.Namespace || claim.DeletionTimestamp != nil {
			continue
		}
		if of, made := claim.Annotations[resourcev1.PodResourceClaimAnnotation]; !made || of != entry {
			continue
		}
		if found == nil || older(claim, found) {
			found = claim
		}
	}
	return found, nil
}

func older(a, b *resourcev1.ResourceClaim) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

func (k *keeper) create(ctx context.Context, pod *corev1.Pod, entry *corev1.PodResourceClaim) (*resourcev1.ResourceClaim, error) {
	template, err := k.templates.ResourceClaimTemplates(pod.Namespace).Get(*entry.ResourceClaimTemplateName)
	if err != nil {
		return nil, fmt.Errorf("resource claim template %q: %w", *entry.ResourceClaimTemplateName, err)
	}
	template = template.DeepCopy()
	annotations := template.Spec.Annotations
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourcev1.PodResourceClaimAnnotation] = entry.Name
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: generateName(pod.Name, entry.Name), Labels: template.Spec.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: podKind.GroupVersion().String(), Kind: podKind.Kind, Name: pod.Name, UID: pod.UID, Controller: ptr.To(true),
			}},
		},
		Spec: template.Spec.Spec,
	}
	made, err := k.client.ResourceV1().ResourceClaims(pod.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	countCreation(claim, err)
	if err != nil {
		return nil, fmt.Errorf("create ResourceClaim %s: %w", claim.Name, err)
	}
	k.made.Mutation(made)
	return made, nil
}

// longestBase leaves room for a random ending in a name of 63 characters.
const longestBase = 57

// generateName is the beginning of the name of a claim. Of a long one both parts are cut by their length.
func generateName(pod, entry string) string {
	name := pod + "-" + entry + "-"
	if n := len(name); n > longestBase {
		// A dot before the hyphen would end a label of nothing.
		name = strings.TrimRight(pod[:len(pod)*longestBase/n], "-.") + "-" + entry[:len(entry)*longestBase/n]
	}
	return name
}

// record writes the names of a pod's claims into its status: new ones and those that are there.
func (k *keeper) record(ctx context.Context, pod *corev1.Pod, made map[string]string) error {
	names := map[string]*string{}
	for i := range pod.Status.ResourceClaimStatuses {
		s := &pod.Status.ResourceClaimStatuses[i]
		names[s.Name] = s.ResourceClaimName
	}
	for entry, name := range made {
		names[entry] = &name
	}
	var statuses []*corev1apply.PodResourceClaimStatusApplyConfiguration
	for _, entry := range slices.Sorted(maps.Keys(names)) {
		s := corev1apply.PodResourceClaimStatus().WithName(entry)
		s.ResourceClaimName = names[entry]
		statuses = append(statuses, s)
	}
	// Another pod of the name is not meant.
	apply := corev1apply.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithStatus(corev1apply.PodStatus().WithResourceClaimStatuses(statuses...))
	if _, err := k.client.CoreV1().Pods(pod.Namespace).ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("update pod %s/%s ResourceClaimStatuses: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// reservable says whether a pod that has a node lacks the reservation of an allocated claim.
func reservable(pod *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return pod.Spec.NodeName != "" && claim.Status.Allocation != nil &&
		!resourceclaim.IsReservedForPod(pod, claim, false) && resourceclaim.CanBeReserved(claim)
}

// reserve writes the reservations that a pod lacks which was bound without the scheduler.
func (k *keeper) reserve(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		name, owned, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if errors.Is(err, resourceclaim.ErrClaimNotFound) {
			return nil // it comes with the status
		}
		if err != nil {
			return err
		}
		if name == nil {
			continue
		}
		claim, err := k.claims.ResourceClaims(pod.Namespace).Get(*name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("retrieve claim: %w", err)
		}
		if owned {
			if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
				return err
			}
		}
		if !reservable(pod, claim) {
			continue
		}
		claim = claim.DeepCopy()
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		if _, err := k.client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("reserve claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}
