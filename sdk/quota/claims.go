package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// classSuffix follows the storage class in names such as
// gold.storageclass.storage.k8s.io/requests.storage.
const classSuffix = ".storageclass.storage.k8s.io/"

func newClaims(list quota.ListerForResourceFunc) quota.Evaluator {
	e := kindOf(list, "persistentvolumeclaims")
	own := []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
	total := countName(e.resource)
	e.matching = func(names []corev1.ResourceName) []corev1.ResourceName {
		out := []corev1.ResourceName{}
		for _, name := range names {
			if name == total || slices.ContainsFunc(own, func(o corev1.ResourceName) bool {
				return name == o || strings.HasSuffix(string(name), classSuffix+string(o))
			}) {
				out = append(out, name)
			}
		}
		return out
	}
	e.inScope = claimInScope
	e.usage = claimUsage
	e.handles = func(a admission.Attributes) bool {
		switch a.GetSubresource() {
		case "":
			return a.GetOperation() == admission.Create || a.GetOperation() == admission.Update
		case "status":
			claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
			old, okOld := a.GetOldObject().(*corev1.PersistentVolumeClaim)
			return ok && okOld && (claim.Status.AllocatedResources.Storage().Cmp(*old.Status.AllocatedResources.Storage()) != 0 ||
				!slices.Equal(attributesClasses(claim), attributesClasses(old)))
		}
		return false
	}
	return &e
}

func asClaim(obj runtime.Object) (*corev1.PersistentVolumeClaim, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil, fmt.Errorf("expect *v1.PersistentVolumeClaim, got %T", obj)
	}
	return claim, nil
}

func claimUsage(obj runtime.Object) (corev1.ResourceList, error) {
	claim, err := asClaim(obj)
	if err != nil {
		return corev1.ResourceList{}, err
	}
	out := corev1.ResourceList{
		"count/persistentvolumeclaims":        count(1),
		corev1.ResourcePersistentVolumeClaims: count(1),
	}
	class := corev1.ResourceName(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if class != "" {
		out[class+classSuffix+corev1.ResourcePersistentVolumeClaims] = count(1)
	}
	storage, ok := claimStorage(claim)
	if ok {
		out[corev1.ResourceRequestsStorage] = storage
		if class != "" {
			out[class+classSuffix+corev1.ResourceRequestsStorage] = storage
		}
	}
	return out, nil
}

// claimStorage is the larger of what is asked for and what a shrinking resize
// still holds, in whole bytes.
func claimStorage(claim *corev1.PersistentVolumeClaim) (resource.Quantity, bool) {
	asked, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return resource.Quantity{}, false
	}
	if held, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && held.Cmp(asked) > 0 {
		asked = held
	}
	asked = asked.DeepCopy()
	asked.RoundUp(0)
	return asked, true
}

func claimInScope(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	claim, err := asClaim(obj)
	if err != nil {
		return false, err
	}
	if scope.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	return scopeSelects(scope, attributesClasses(claim)...)
}

// attributesClasses are the classes a claim has, wants or is moving to.
func attributesClasses(claim *corev1.PersistentVolumeClaim) []string {
	var out []string
	add := func(name *string) {
		if name != nil && *name != "" && !slices.Contains(out, *name) {
			out = append(out, *name)
		}
	}
	add(claim.Spec.VolumeAttributesClassName)
	add(claim.Status.CurrentVolumeAttributesClassName)
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		add(&modify.TargetVolumeAttributesClassName)
	}
	slices.Sort(out)
	return out
}
