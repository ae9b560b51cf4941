package shadow

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Plugins of one bundle have one candidate: the first by name says which.
func TestWanted(t *testing.T) {
	plugin := func(name, bundle, version string) *v1alpha1.Plugin {
		p := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PluginSpec{Bundle: bundle}}
		if version != "" {
			p.Spec.Shadow = &v1alpha1.PluginShadowSpec{Version: version}
		}
		return p
	}
	ending := plugin("e", "last", "1")
	ending.DeletionTimestamp = &metav1.Time{}
	got := wanted([]any{plugin("c", "one", "3"), plugin("b", "one", "2"), plugin("a", "one", ""), plugin("d", "two", "9"), ending, "no plugin"})
	want := map[string]v1alpha1.PluginShadowSpec{"one": {Version: "2"}, "two": {Version: "9"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

func TestNewChecks(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a manager without a host was made")
	}
}
