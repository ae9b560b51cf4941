package review

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// virtual is what all reviews share: a kind that is created and not stored.
type virtual struct {
	singular   string
	namespaced bool
	object     func() runtime.Object
}

func (v virtual) NamespaceScoped() bool   { return v.namespaced }
func (v virtual) New() runtime.Object     { return v.object() }
func (v virtual) Destroy()                {}
func (v virtual) GetSingularName() string { return v.singular }

// admit calls the validating admission, if there is one.
func admit(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc) error {
	if validate == nil {
		return nil
	}
	return validate(ctx, obj.DeepCopyObject())
}
