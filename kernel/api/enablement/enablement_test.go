package enablement

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func gvr(s string) schema.GroupVersionResource {
	p := strings.Split(s, "/")
	return schema.GroupVersionResource{Group: p[0], Version: p[1], Resource: p[2]}
}

func TestNew(t *testing.T) {
	var there []schema.GroupVersionResource
	for _, s := range []string{
		"/v1/pods", "apps/v1/deployments", "apps/v1/daemonsets", "autoscaling/v1/horizontalpodautoscalers", "autoscaling/v2/horizontalpodautoscalers",
		"certificates.k8s.io/v1beta1/clustertrustbundles", "storage.k8s.io/v1/storageclasses", "policy/v1/poddisruptionbudgets",
		"kernel.pintle.dev/v1alpha1/plugins", "example.k8s.io/v1alpha1/things",
	} {
		there = append(there, gvr(s))
	}
	everything := func(but ...string) []string {
		out := []string{
			"/v1/pods", "apps/v1/deployments", "apps/v1/daemonsets", "autoscaling/v1/horizontalpodautoscalers", "autoscaling/v2/horizontalpodautoscalers",
			"storage.k8s.io/v1/storageclasses", "policy/v1/poddisruptionbudgets", "kernel.pintle.dev/v1alpha1/plugins",
		}
		return slices.DeleteFunc(out, func(s string) bool { return slices.Contains(but, s) })
	}
	tests := []struct {
		name      string
		overrides map[string]string
		served    []string
		err       string
	}{
		{name: "by default", served: everything()},
		{name: "a version", overrides: map[string]string{"autoscaling/v1": "false"}, served: everything("autoscaling/v1/horizontalpodautoscalers")},
		{name: "a resource", overrides: map[string]string{"apps/v1/daemonsets": "false"}, served: everything("apps/v1/daemonsets")},
		{name: "a resource of a version that is not served", overrides: map[string]string{"apps/v1": "false", "apps/v1/daemonsets": "true"}, served: everything("apps/v1/deployments")},
		{name: "beta", overrides: map[string]string{"api/beta": "true"}, served: append(everything(), "certificates.k8s.io/v1beta1/clustertrustbundles")},
		{name: "one beta", overrides: map[string]string{"certificates.k8s.io/v1beta1": "true"}, served: append(everything(), "certificates.k8s.io/v1beta1/clustertrustbundles")},
		{name: "alpha", overrides: map[string]string{"api/alpha": "true"}, served: append(everything(), "example.k8s.io/v1alpha1/things")},
		{name: "no alpha leaves plugins", overrides: map[string]string{"api/alpha": "false"}, served: everything()},
		{name: "all", overrides: map[string]string{"api/all": "true"}, served: append(everything(), "certificates.k8s.io/v1beta1/clustertrustbundles", "example.k8s.io/v1alpha1/things")},
		{name: "all but beta", overrides: map[string]string{"api/all": "true", "api/beta": "false"}, served: append(everything(), "example.k8s.io/v1alpha1/things")},
		{name: "all but some", overrides: map[string]string{"api/all": "false", "/v1": "true", "policy/v1": "true"}, served: []string{"/v1/pods", "policy/v1/poddisruptionbudgets", "kernel.pintle.dev/v1alpha1/plugins"}},

		{name: "nothing", overrides: map[string]string{"api/all": "false"}, err: "invalid runtime-config with only api/all=false"},
		{name: "what is needed", overrides: map[string]string{"policy/v1": "false"}, err: "policy/v1 is not served by api.runtimeConfig, and the kernel needs it: evictions read disruption budgets through it; add policy/v1: true"},
		{name: "a resource that is needed", overrides: map[string]string{"policy/v1/poddisruptionbudgets": "false"}, err: "policy/v1 is not served"},
		{name: "core", overrides: map[string]string{"/v1": "false"}, err: "v1 is not served by api.runtimeConfig"},
		{name: "plugins", overrides: map[string]string{"kernel.pintle.dev/v1alpha1": "false"}, err: "the plugin host writes the plugins through it"},
		{name: "an unknown group", overrides: map[string]string{"aps/v1": "false"}, err: "unknown api groups aps/v1"},
		{name: "an unknown version", overrides: map[string]string{"apps/v2": "true"}, err: "group version apps/v2 that has not been registered"},
		{name: "an unknown resource", overrides: map[string]string{"apps/v1/Deployments": "false"}, err: `apps/v1 has no resource "Deployments"`},
		{name: "a subresource", overrides: map[string]string{"apps/v1/deployments/status": "false"}, err: "runtime-config invalid key"},
		{name: "a value", overrides: map[string]string{"apps/v1": "no"}, err: "invalid value of apps/v1: no"},
		{name: "a value of all", overrides: map[string]string{"api/ga": "no"}, err: "invalid value api/ga=no"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := New(there, tc.overrides)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range there {
				name := r.Group + "/" + r.Version + "/" + r.Resource
				if want := slices.Contains(tc.served, name); got.ResourceEnabled(r) != want {
					t.Errorf("%s: served %t, want %t", name, !want, want)
				}
			}
		})
	}
}
