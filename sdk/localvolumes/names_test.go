package localvolumes

import "testing"

// A UID of the API server names a volume; nothing that could be a path does.
func TestNames(t *testing.T) {
	if name := Name("0a1b2c3d-0000-4000-8000-00000000beef"); !Valid(name) || RemovePath(name) != "/localvolumes/pvc-0a1b2c3d-0000-4000-8000-00000000beef" {
		t.Errorf("%q", name)
	}
	for _, uid := range []string{"", "x", "..", "../../etc", "0a1b2c3d-0000-4000-8000-00000000beef/..", "0A1B2C3D-0000-4000-8000-00000000BEEF", "0a1b2c3d-0000-4000-8000-00000000beef\n"} {
		if Valid("pvc-" + uid) {
			t.Errorf("%q names a volume", uid)
		}
	}
}
