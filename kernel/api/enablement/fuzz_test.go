package enablement

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/resourceconfig"
	cliflag "k8s.io/component-base/cli/flag"
)

// FuzzCheck: a flag as of --runtime-config is read as upstream's library reads it. What
// passes our check passes there too, and leaves on what the kernel needs.
func FuzzCheck(f *testing.F) {
	for _, flag := range []string{"", "api/all=true", "api/all=false", "apps/v1=false,apps/v1/daemonsets=true", "autoscaling/v1=false", "policy/v1=false", "/v1=false", "v1=true", "a/b/c/d=true", "apps/v1", "=", "api/beta=no", "certificates.k8s.io/v1beta1=true"} {
		f.Add(flag)
	}
	known := Known()
	r := registry{}
	for _, gvr := range known {
		if r[gvr.GroupVersion()] == nil {
			r[gvr.GroupVersion()] = map[string]bool{}
		}
		r[gvr.GroupVersion()][gvr.Resource] = true
	}
	f.Fuzz(func(t *testing.T, flag string) {
		overrides := cliflag.ConfigurationMap{}
		if err := overrides.Set(flag); err != nil {
			return
		}
		keys, whole := Check(overrides)
		for key, err := range keys {
			if _, ok := overrides[key]; !ok || err == nil || len(key) < 64 && !strings.Contains(err.Error(), strings.Split(key, "/")[0]) {
				t.Errorf("%q: key %q: %v", flag, key, err)
			}
		}
		if len(keys) > 0 || whole != nil {
			return
		}
		served, err := New(known, overrides)
		if err != nil {
			t.Fatalf("%q passes, and is refused: %v", flag, err)
		}
		for _, gvr := range known {
			if _, ok := needed[gvr.Group]; ok && !served.ResourceEnabled(gvr) {
				t.Errorf("%q passes, and takes %s away", flag, gvr)
			}
		}
		// Upstream's own merge, of the same defaults, but for the kernel's group.
		defaults, err := New(known, nil)
		if err != nil {
			t.Fatal(err)
		}
		upstream, err := resourceconfig.MergeAPIResourceConfigs(defaults, overrides, r)
		if err != nil {
			t.Fatalf("%q passes, and upstream refuses it: %v", flag, err)
		}
		for _, gvr := range known {
			if gvr.Group != own && served.ResourceEnabled(gvr) != upstream.ResourceEnabled(gvr) {
				t.Errorf("%q: %s is served: %t; upstream: %t", flag, gvr, served.ResourceEnabled(gvr), upstream.ResourceEnabled(gvr))
			}
		}
	})
}
