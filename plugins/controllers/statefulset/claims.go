package statefulset

import (
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return template.Name + "-" + set.Name + "-" + strconv.Itoa(ordinal)
}

// claimsOf returns the claims that the pod of an ordinal needs, by the order of
// the templates.
func claimsOf(set *appsv1.StatefulSet, ordinal int) []*corev1.PersistentVolumeClaim {
	claims := make([]*corev1.PersistentVolumeClaim, 0, len(set.Spec.VolumeClaimTemplates))
	for i := range set.Spec.VolumeClaimTemplates {
		c := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		c.Name, c.Namespace = claimName(set, c, ordinal), set.Namespace
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		if set.Spec.Selector != nil {
			maps.Copy(c.Labels, set.Spec.Selector.MatchLabels)
		}
		claims = append(claims, c)
	}
	return claims
}

// storageMatches says whether the pod mounts the claims of its ordinal.
func storageMatches(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == t.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claimName(set, t, ordinal)
		}) {
			return false
		}
	}
	return true
}

// setStorage puts the claims of the ordinal in the place of volumes of their name.
func setStorage(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) {
	var volumes []corev1.Volume
	ours := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		ours[t.Name] = true
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t, ordinal)},
		}})
	}
	for _, v := range pod.Spec.Volumes {
		if !ours[v.Name] {
			volumes = append(volumes, v)
		}
	}
	pod.Spec.Volumes = volumes
}

// retention returns what of the set's policy deletes claims.
func retention(set *appsv1.StatefulSet) (whenDeleted, whenScaled bool) {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return false, false
	}
	const del = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return p.WhenDeleted == del, p.WhenScaled == del
}

// wantedOwners says who should own the claims of the pod: the pod, if the set no
// longer wants it and the policy deletes then; else the set, if the policy
// deletes claims with it.
func wantedOwners(set *appsv1.StatefulSet, pod *corev1.Pod) (bySet, byPod bool) {
	whenDeleted, whenScaled := retention(set)
	byPod = whenScaled && !inRange(set, pod)
	return whenDeleted && !byPod, byPod
}

// names says whether the reference is to an object of that kind and name,
// whichever its UID.
func names(ref metav1.OwnerReference, o metav1.Object, kind schema.GroupVersionKind) bool {
	return ref.APIVersion == kind.GroupVersion().String() && ref.Kind == kind.Kind && ref.Name == o.GetName()
}

func ownedBy(claim *corev1.PersistentVolumeClaim, o metav1.Object) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() })
}

// stale says whether the claim is owned by an earlier object of the name.
func stale(claim *corev1.PersistentVolumeClaim, o metav1.Object, kind schema.GroupVersionKind) bool {
	i := slices.IndexFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool { return names(r, o, kind) })
	return i >= 0 && claim.OwnerReferences[i].UID != o.GetUID()
}

// foreign says whether something else controls the claim though the policy asks
// for an owner. Earlier objects of the names of set and pod are something else.
func foreign(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if whenDeleted, whenScaled := retention(set); !whenDeleted && !whenScaled {
		return false
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool {
		switch {
		case names(r, set, gvk):
			return r.UID != set.UID
		case names(r, pod, podKind):
			return r.UID != pod.UID
		}
		return r.Controller != nil && *r.Controller
	})
}

// ownersRight says whether the claim's owners need no change. Those of an
// earlier set or pod are left to the garbage collector.
func ownersRight(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if stale(claim, set, gvk) || stale(claim, pod, podKind) {
		return true
	}
	hasSet, hasPod := ownedBy(claim, set), ownedBy(claim, pod)
	if foreign(claim, set, pod) {
		return !hasSet && !hasPod
	}
	if slices.ContainsFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool {
		return (r.UID == set.UID || r.UID == pod.UID) && (r.Controller == nil || !*r.Controller)
	}) {
		return false
	}
	bySet, byPod := wantedOwners(set, pod)
	return hasSet == bySet && hasPod == byPod
}

// setOwners gives the claim the owners of the policy, and none of ours if
// something else controls it.
func setOwners(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) {
	bySet, byPod := wantedOwners(set, pod)
	if foreign(claim, set, pod) {
		bySet, byPod = false, false
	}
	claim.OwnerReferences = slices.DeleteFunc(slices.Clone(claim.OwnerReferences), func(r metav1.OwnerReference) bool {
		return names(r, set, gvk) || names(r, pod, podKind)
	})
	if bySet && !ownedBy(claim, set) {
		claim.OwnerReferences = append(claim.OwnerReferences, *metav1.NewControllerRef(set, gvk))
	}
	if byPod && !ownedBy(claim, pod) {
		claim.OwnerReferences = append(claim.OwnerReferences, *metav1.NewControllerRef(pod, podKind))
	}
}
