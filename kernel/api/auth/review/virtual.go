package review

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
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

// as is the review that a request holds.
func as[T runtime.Object](obj runtime.Object) (T, error) {
	review, ok := obj.(T)
	if !ok {
		return review, apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", reflect.TypeFor[T]().Elem().Name(), obj))
	}
	return review, nil
}

// caller is who asks.
func caller(ctx context.Context) (user.Info, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return who, nil
}

// admit calls the validating admission, if there is one.
func admit(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc) error {
	if validate == nil {
		return nil
	}
	return validate(ctx, obj.DeepCopyObject())
}
