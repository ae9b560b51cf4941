package api

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"
)

// DeletePod deletes a pod as a DELETE of the user would, past admission and with
// its grace period, but without HTTP and without asking whether the user may: it is
// for parts of the kernel, which may. The errors are those of the request.
func (s *Server) DeletePod(ctx context.Context, who user.Info, namespace, name string, options metav1.DeleteOptions) error {
	ctx = asRequestOf(ctx, who, "delete", podResource, namespace, name)
	options.TypeMeta.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	attributes := admission.NewAttributesRecord(nil, nil, podKind, namespace, name, podResource, "", admission.Delete, &options, false, who)
	if err := s.admit.Admit(ctx, attributes, s.objectInterfaces()); err != nil {
		return err
	}
	validate := rest.AdmissionToValidateObjectDeleteFunc(s.admit, attributes, s.objectInterfaces())
	_, _, err := s.stores[corev1.Resource("pods")].Delete(ctx, name, validate, &options)
	return err
}
