package convert

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/readable"
)

// Every kind that plugins may read is converted under its name, and no other.
func TestEveryReadableKindIsConverted(t *testing.T) {
	for _, name := range readable.Names() {
		kind, _ := readable.Of(name)
		if o, err := Object(kind.Object.DeepCopyObject()); err != nil || o.GetKey().GetKind() != name {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
	if o, err := Object(&v1.Secret{}); err == nil {
		t.Errorf("a Secret became %v", o)
	}
}
