package readable

import (
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
)

// Each name is that of its Go type, in the group and version of its resource.
func TestKindsAreWhatTheyAreCalled(t *testing.T) {
	for _, name := range Names() {
		kind, ok := Of(name)
		if !ok {
			t.Fatalf("%s is listed and not there", name)
		}
		kinds, _, err := scheme.Scheme.ObjectKinds(kind.Object)
		if err != nil || kinds[0] != kind.Resource.GroupVersion().WithKind(name) {
			t.Errorf("%s: %v, %v", name, kinds, err)
		}
	}
	if _, ok := Of("Secret"); ok {
		t.Error("plugins may read Secrets")
	}
}
