package kernel

import (
	"slices"
	"testing"
)

// A profile names the kernel's own binding by its name: what stands behind it is
// never asked, as with kube-scheduler, where it skips no pod.
func TestDefaultBinderByName(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{nil, []string{}},
		{[]string{"DefaultBinder"}, []string{}},
		{[]string{"A", "B"}, []string{"A", "B"}},
		{[]string{"A", "DefaultBinder", "B"}, []string{"A"}},
	} {
		if got := bindersBefore(c.names); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.names, got, c.want)
		}
	}
}
