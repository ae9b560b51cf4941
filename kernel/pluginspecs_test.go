package kernel

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// accepted is the status of an object's condition Accepted.
func accepted(o *v1alpha1.Plugin) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.PluginConditionAccepted); c != nil && c.ObservedGeneration == o.Generation {
		return c.Status
	}
	return metav1.ConditionUnknown
}

// Who sees in the status of a plugin that a change of its bundle is in force finds
// nothing former in the specs of the bundle's other plugins: a patch that asks for just
// that would change nothing, and be lost.
func TestStatusesFollowSpecs(t *testing.T) {
	data := t.TempDir()
	k := runKernel(t, data, "logging: {level: info}\n")
	k.awaitReady(t)
	if err := k.install(t, versionedBundle(t, "greeter", "1.0.0", false)); err != nil {
		t.Fatal(err)
	}
	c, names := k.plugins(t), []string{"greeter", "label", "refuse"} // as the manifest lists them
	awaitPlugin(t, c, "refuse", func(*v1alpha1.Plugin) bool { return true })
	if _, err := c.Change(t.Context(), "refuse", func(o *v1alpha1.Plugin) error {
		o.Spec.Timeout = &metav1.Duration{Duration: 3 * time.Second}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		awaitPlugin(t, c, name, func(o *v1alpha1.Plugin) bool { return o.Spec.Timeout != nil && accepted(o) == metav1.ConditionTrue })
	}

	path := "/apis/" + v1alpha1.SchemeGroupVersion.String() + "/plugins"
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := k.as(t, administrator).CoreV1().RESTClient()
	stream, err := client.Get().AbsPath(path).Param("watch", "true").Param("resourceVersion", list.ResourceVersion).Timeout(2 * time.Minute).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	// What one of them said of the bundle ends with it.
	if err := client.Delete().AbsPath(path + "/greeter").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	former := map[string]bool{"label": true, "refuse": true}
	gone := false
	for d := json.NewDecoder(stream); ; {
		var e struct {
			Type   string
			Object v1alpha1.Plugin
		}
		if err := d.Decode(&e); err != nil {
			t.Fatalf("the watch ended before the plugin's status was there again: %v", err)
		}
		o := &e.Object
		gone = gone || e.Type == "DELETED"
		if former[o.Name] {
			former[o.Name] = o.Spec.Timeout != nil
		}
		if gone && o.Name == "greeter" && e.Type != "DELETED" && accepted(o) == metav1.ConditionTrue {
			break
		}
	}
	for name, is := range former {
		if is {
			t.Errorf("plugin %s has the former timeout in its spec when the status of greeter says that another is in force", name)
		}
	}
}
