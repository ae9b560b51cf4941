package rbac

import (
	"fmt"
	"reflect"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A rule that differs in any one field is another, as upstream's comparison has it.
func TestSameRule(t *testing.T) {
	full := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}, NonResourceURLs: []string{"/x"}}
	cases := []rbacv1.PolicyRule{full, *full.DeepCopy(), {}, {Verbs: []string{}}}
	for i := range reflect.TypeFor[rbacv1.PolicyRule]().NumField() {
		for _, list := range [][]string{nil, {}, {"other"}, {"get", "", "pods", "a", "/x"}} {
			other := full.DeepCopy()
			reflect.ValueOf(other).Elem().Field(i).Set(reflect.ValueOf(list))
			cases = append(cases, *other)
		}
	}
	for i, a := range cases {
		for j, b := range cases {
			t.Run(fmt.Sprint(i, "-", j), func(t *testing.T) {
				want := equality.Semantic.DeepEqual(a, b)
				if got := SameRule(&a, &b); got != want {
					t.Errorf("%v and %v are the same: %v, want %v", a, b, got, want)
				}
			})
		}
	}
	other := full.DeepCopy()
	if n := testing.AllocsPerRun(10, func() { SameRule(other, &full) }); n != 0 {
		t.Errorf("a comparison allocates %v times", n)
	}
}
