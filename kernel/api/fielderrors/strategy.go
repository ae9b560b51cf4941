package fielderrors

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Max is how many faults of one object are named.
const Max = 1000

// First gives the first faults of a list, and one that says how many there are beside.
func First(list field.ErrorList) field.ErrorList {
	more := len(list) - Max
	if more <= 0 {
		return list
	}
	return append(list[:Max:Max], &field.Error{Type: field.ErrorTypeForbidden, Field: list[Max].Field,
		Detail: fmt.Sprintf("%d more faults from here on; the first %d are named", more, Max)})
}

// Create gives a strategy that names the first faults.
func Create(s rest.RESTCreateStrategy) rest.RESTCreateStrategy { return create{s} }

type create struct{ rest.RESTCreateStrategy }

// Validate implements rest.RESTCreateStrategy.
func (c create) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return First(c.RESTCreateStrategy.Validate(ctx, obj))
}

// Update gives a strategy that names the first faults.
func Update(s rest.RESTUpdateStrategy) rest.RESTUpdateStrategy { return update{s} }

type update struct{ rest.RESTUpdateStrategy }

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (u update) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return First(u.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old))
}
