package alwayspullimages

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// Plugin sets pull policies.
type Plugin struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// New returns the plugin.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create, admission.Update)} }

// policy is the pull policy of one image in a pod.
type policy struct {
	image string
	value *corev1.PullPolicy
	path  *field.Path
}

func policies(pod *corev1.Pod) []policy {
	spec := field.NewPath("spec")
	var out []policy
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		out = append(out, policy{c.Image, &c.ImagePullPolicy, spec.Child("initContainers").Index(i).Child("imagePullPolicy")})
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		out = append(out, policy{c.Image, &c.ImagePullPolicy, spec.Child("containers").Index(i).Child("imagePullPolicy")})
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		out = append(out, policy{c.Image, &c.ImagePullPolicy, spec.Child("ephemeralContainers").Index(i).Child("imagePullPolicy")})
	}
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].Image; v != nil {
			out = append(out, policy{v.Reference, &v.PullPolicy, spec.Child("volumes").Index(i).Child("image", "pullPolicy")})
		}
	}
	return out
}

// concerned returns the policies of a pod that names images which it did not
// name before; ephemeral containers come by their subresource.
func concerned(a admission.Attributes) ([]policy, error) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" && a.GetSubresource() != "ephemeralcontainers" {
		return nil, nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	list := policies(pod)
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok || old == nil {
		return list, nil
	}
	// What a pod had before the plugin was switched on may not change any more.
	had := map[string]bool{}
	for _, p := range policies(old) {
		had[p.image] = true
	}
	var fresh []policy
	for _, p := range list {
		if !had[p.image] {
			fresh = append(fresh, p)
		}
	}
	return fresh, nil
}

// Admit implements admission.MutationInterface.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	list, err := concerned(a)
	for _, p := range list {
		*p.value = corev1.PullAlways
	}
	return err
}

// Validate implements admission.ValidationInterface.
func (*Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	list, err := concerned(a)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range list {
		if *p.value != corev1.PullAlways {
			errs = append(errs, admission.NewForbidden(a, field.NotSupported(p.path, *p.value, []corev1.PullPolicy{corev1.PullAlways})))
		}
	}
	return utilerrors.NewAggregate(errs)
}
