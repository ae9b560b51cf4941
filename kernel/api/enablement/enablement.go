package enablement

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/resourceconfig"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
)

// needed are groups that the kernel does not live without, and why.
var needed = map[string]string{
	"":                             "everything is kept and told in the core group",
	"rbac.authorization.k8s.io":    "the kernel writes the default roles through it",
	"authentication.k8s.io":        "nodes ask it who sends a request",
	"authorization.k8s.io":         "nodes ask it who may send a request",
	"coordination.k8s.io":          "nodes and kernels renew their Leases through it",
	"discovery.k8s.io":             "the kernel writes the endpoints of the API through it",
	"events.k8s.io":                "the scheduler writes its events through it",
	"policy":                       "evictions read disruption budgets through it",
	"scheduling.k8s.io":            "the kernel writes the classes of system pods through it",
	"flowcontrol.apiserver.k8s.io": "the kernel writes the default levels of requests through it",
	"admissionregistration.k8s.io": "webhooks and policies that are stored stay in force, and nobody could take them away",
	"apiextensions.k8s.io":         "custom resources are served by their definitions",
	own:                            "the plugin host writes the plugins through it",
}

// own is the kernel's group, which upstream's names for all versions of a kind leave alone.
const own = "kernel.pintle.dev"

var everywhere = []string{resourceconfig.APIAll, resourceconfig.APIGA, resourceconfig.APIBeta, resourceconfig.APIAlpha}

var generallyAvailable = regexp.MustCompile(`^v\d+$`)

// New gives what is served of the resources that there are, where overrides are as
// those of --runtime-config.
func New(there []schema.GroupVersionResource, overrides map[string]string) (*serverstorage.ResourceConfig, error) {
	r := registry{}
	out := serverstorage.NewResourceConfig()
	for _, gvr := range there {
		gv := gvr.GroupVersion()
		if r[gv] == nil {
			r[gv] = map[string]bool{}
			if generallyAvailable.MatchString(gv.Version) || gv.Group == own {
				out.EnableVersions(gv)
			} else {
				out.DisableVersions(gv)
			}
		}
		r[gv][gvr.Resource] = true
	}
	if overrides[resourceconfig.APIAll] == "false" && len(overrides) == 1 {
		return nil, fmt.Errorf("invalid runtime-config with only %s=false", resourceconfig.APIAll)
	}
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		if err := r.check(key); err != nil {
			return nil, err
		}
	}
	var kept []schema.GroupVersion
	for gv := range r {
		if gv.Group == own {
			kept = append(kept, gv)
			delete(out.GroupVersionConfigs, gv)
		}
	}
	out, err := resourceconfig.MergeAPIResourceConfigs(out, overrides, r)
	if err != nil {
		return nil, err
	}
	for _, gv := range kept {
		if _, ok := out.GroupVersionConfigs[gv]; !ok {
			out.EnableVersions(gv)
		}
	}
	for _, gvr := range there {
		why, ok := needed[gvr.Group]
		if ok && generallyAvailable.MatchString(gvr.Version) && !out.ResourceEnabled(gvr) || gvr.Group == own && !out.ResourceEnabled(gvr) {
			return nil, fmt.Errorf("%s is not served by api.runtimeConfig, and the kernel needs it: %s; add %s/%s: true", gvr.GroupVersion(), why, gvr.Group, gvr.Version)
		}
	}
	return out, nil
}

// registry is what there is, as the library asks for it.
type registry map[schema.GroupVersion]map[string]bool

// check says what is wrong with a key, or nil.
func (r registry) check(key string) error {
	if slices.Contains(everywhere, key) {
		return nil
	}
	parts := strings.Split(key, "/")
	if len(parts) != 2 && len(parts) != 3 {
		return fmt.Errorf("runtime-config invalid key %s", key)
	}
	gv := schema.GroupVersion{Group: parts[0], Version: parts[1]}
	switch {
	case r[gv] == nil && isOff(gv):
		return fmt.Errorf("%s is off by default in Kubernetes, and is not served here; remove the key; kernel/KUBERNETES.md names what is not served", gv)
	case !r.IsGroupRegistered(gv.Group):
		return fmt.Errorf("unknown api groups %s", gv)
	case r[gv] == nil:
		return fmt.Errorf("group version %s that has not been registered", gv)
	case len(parts) == 3 && !r[gv][parts[2]]:
		return fmt.Errorf("invalid key %s: %s has no resource %q; name the plural, in lower case", key, gv, parts[2])
	}
	return nil
}

// IsGroupRegistered implements resourceconfig.GroupVersionRegistry.
func (r registry) IsGroupRegistered(group string) bool {
	return len(r.PrioritizedVersionsForGroup(group)) > 0
}

// IsVersionRegistered implements resourceconfig.GroupVersionRegistry.
func (r registry) IsVersionRegistered(v schema.GroupVersion) bool { return r[v] != nil }

// PrioritizedVersionsAllGroups implements resourceconfig.GroupVersionRegistry.
func (r registry) PrioritizedVersionsAllGroups() []schema.GroupVersion {
	return slices.Collect(maps.Keys(r))
}

// PrioritizedVersionsForGroup implements resourceconfig.GroupVersionRegistry.
func (r registry) PrioritizedVersionsForGroup(group string) []schema.GroupVersion {
	var out []schema.GroupVersion
	for gv := range r {
		if gv.Group == group {
			out = append(out, gv)
		}
	}
	return out
}
