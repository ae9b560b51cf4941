package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodResize: CPU and memory may change, but neither appear out of
// nothing for another QoS class nor vanish.
func validatePodResize(pod, old *corev1.Pod) field.ErrorList {
	errs := append(validateMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta), validatePod(pod, allowancesOf(old.Annotations, &old.Spec))...)
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if os := old.Spec.OS; os != nil && os.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	class := old.Status.QOSClass
	if class == "" {
		class = podQOS(&old.Spec)
	}
	if podQOS(&pod.Spec) != class {
		errs = append(errs, field.Invalid(specPath, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	// A node that resizes reports the resources of what it runs.
	if i := slices.IndexFunc(old.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }); i >= 0 &&
		old.Status.ContainerStatuses[i].Resources == nil {
		errs = append(errs, field.Forbidden(specPath, "Pod running on node without support for resize"))
	}
	before := len(errs)
	spec := pod.Spec.DeepCopy()
	for _, l := range []struct {
		name     string
		new, old []corev1.Container
	}{{"containers", spec.Containers, old.Spec.Containers}, {"initContainers", spec.InitContainers, old.Spec.InitContainers}} {
		path := specPath.Child(l.name)
		if len(l.new) != len(l.old) {
			errs = append(errs, field.Forbidden(path, l.name+" may not be added or removed on resize"))
			continue
		}
		for i := range l.old {
			c, was := &l.new[i], &l.old[i]
			if c.Name != was.Name {
				errs = append(errs, field.Forbidden(path.Index(i).Child("name"), l.name+" may not be renamed or reordered on resize"))
				continue
			}
			errs = append(errs, validateKept(c.Resources, was.Resources, path.Index(i).Child("resources"))...)
			setBackCompute(&c.Resources, &was.Resources)
		}
	}
	if len(errs) > before {
		return errs
	}
	if spec.Resources != nil && old.Spec.Resources != nil {
		errs = append(errs, validateKept(*spec.Resources, *old.Spec.Resources, specPath.Child("resources"))...)
		setBackCompute(spec.Resources, old.Spec.Resources)
	} else if old.Spec.Resources == nil && spec.Resources != nil {
		setBackCompute(spec.Resources, &corev1.ResourceRequirements{})
		if apiequality.Semantic.DeepEqual(*spec.Resources, corev1.ResourceRequirements{}) {
			spec.Resources = nil
		}
	}
	if !apiequality.Semantic.DeepEqual(*spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable"))
	}
	return errs
}

func validateKept(now, was corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, l := range []struct {
		name     string
		now, was corev1.ResourceList
	}{{"requests", now.Requests, was.Requests}, {"limits", now.Limits, was.Limits}} {
		for name := range l.was {
			if _, kept := l.now[name]; !kept {
				errs = append(errs, field.Forbidden(path.Child(l.name), "resource "+l.name+" cannot be removed"))
				break
			}
		}
	}
	return errs
}

func setBackCompute(r, was *corev1.ResourceRequirements) {
	back := func(list *corev1.ResourceList, old corev1.ResourceList) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := old[name]; ok {
				if *list == nil {
					*list = corev1.ResourceList{}
				}
				(*list)[name] = q
			} else {
				delete(*list, name)
			}
		}
	}
	back(&r.Requests, was.Requests)
	back(&r.Limits, was.Limits)
}
