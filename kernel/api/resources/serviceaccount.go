package resources

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// enforceMountableSecrets is the deprecated annotation that limits which
// secrets a pod may mount.
const enforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func serviceAccountKind() Kind {
	gvk := v1.SchemeGroupVersion.WithKind("ServiceAccount")
	return Kind{
		GVK: gvk, Resource: "serviceaccounts", Singular: "serviceaccount", ShortNames: []string{"sa"},
		New:     func() runtime.Object { return &v1.ServiceAccount{} },
		NewList: func() runtime.Object { return &v1.ServiceAccountList{} },
		Strategy: &rules[*v1.ServiceAccount]{
			base:          base{gvk: gvk, namespaced: true},
			prepareCreate: keepSecretNames,
			prepareUpdate: func(o, _ *v1.ServiceAccount) { keepSecretNames(o) },
			validate:      validateServiceAccount,
			validateUpdate: func(o, old *v1.ServiceAccount) field.ErrorList {
				return append(validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta), validateServiceAccount(o)...)
			},
			warnCreate: func(o *v1.ServiceAccount) []string { return warnMountableSecrets(o, nil) },
			warnUpdate: warnMountableSecrets,
		},
		Columns: cols(nameColumn(), ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*v1.ServiceAccount)
			return []any{o.Name, ageCell(o.CreationTimestamp)}, nil
		},
	}
}

// keepSecretNames drops all but the names of the secrets: they are of the
// account's own namespace.
func keepSecretNames(o *v1.ServiceAccount) {
	for i, ref := range o.Secrets {
		o.Secrets[i] = v1.ObjectReference{Name: ref.Name}
	}
}

func validateServiceAccount(o *v1.ServiceAccount) field.ErrorList {
	return validateMeta(&o.ObjectMeta, true, apivalidation.ValidateServiceAccountName)
}

func warnMountableSecrets(o, old *v1.ServiceAccount) []string {
	if old != nil {
		if _, had := old.Annotations[enforceMountableSecrets]; had {
			return nil
		}
	}
	if _, has := o.Annotations[enforceMountableSecrets]; !has {
		return nil
	}
	return []string{fmt.Sprintf("metadata.annotations[%s]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets", enforceMountableSecrets)}
}
