package fielderrors

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// faulty finds so many faults in each object.
type faulty int

func (f faulty) list() (list field.ErrorList) {
	for i := range int(f) {
		list = append(list, field.Required(field.NewPath("items").Index(i), ""))
	}
	return list
}

type onCreate struct {
	rest.RESTCreateStrategy
	faulty
}

func (c onCreate) Validate(context.Context, runtime.Object) field.ErrorList { return c.list() }

type onUpdate struct {
	rest.RESTUpdateStrategy
	faulty
}

func (u onUpdate) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return u.list()
}

func TestFirst(t *testing.T) {
	for _, tt := range []struct {
		faults, want int
		last         string
	}{
		{0, 0, ""},
		{1, 1, "items[0]: Required value"},
		{Max, Max, "items[999]: Required value"},
		{Max + 1, Max + 1, "items[1000]: Forbidden: 1 more faults from here on; the first 1000 are named"},
		{50 * Max, Max + 1, "items[1000]: Forbidden: 49000 more faults from here on; the first 1000 are named"},
	} {
		t.Run(fmt.Sprint(tt.faults), func(t *testing.T) {
			f := faulty(tt.faults)
			for way, list := range map[string]field.ErrorList{
				"create": Create(onCreate{faulty: f}).Validate(t.Context(), nil),
				"update": Update(onUpdate{faulty: f}).ValidateUpdate(t.Context(), nil, nil),
			} {
				if len(list) != tt.want {
					t.Fatalf("%s: %d faults, want %d", way, len(list), tt.want)
				}
				if len(list) > 0 && list[len(list)-1].Error() != tt.last {
					t.Errorf("%s: the last is %q, want %q", way, list[len(list)-1], tt.last)
				}
			}
		})
	}
}
