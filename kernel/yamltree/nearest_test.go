package yamltree

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"name", "version", "plugins", "onFailure"}
	for key, want := range map[string]string{"verison": "version", "plugin": "plugins", "onfailure": "onFailure", "Name": "name", "x": "", "replicas": "", "": ""} {
		if got := Nearest(key, known); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	if got := Nearest("name", nil); got != "" {
		t.Errorf("of none: %q", got)
	}
}
