package maintenance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/kernel/store"
)

// Root begins all keys.
const Root = "/registry/"

// places are the resources whose keys do not begin with their name. The first place that fits counts.
var places = []struct {
	place    string
	resource schema.GroupResource
}{
	{"controllers/", schema.GroupResource{Resource: "replicationcontrollers"}},
	{"services/endpoints/", schema.GroupResource{Resource: "endpoints"}},
	{"services/specs/", schema.GroupResource{Resource: "services"}},
	{"minions/", schema.GroupResource{Resource: "nodes"}},
	{"ingress/", schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}},
}

// Key completes what a person wrote to the key in the store: with or without /registry/ before it, and with the
// resource's own name where its place has another (nodes are at minions, services at services/specs).
func Key(written string) string {
	key := strings.TrimPrefix(strings.TrimPrefix(written, Root), "/")
	for _, p := range places {
		if strings.HasPrefix(key, p.place) {
			return Root + key
		}
	}
	for _, p := range places {
		if rest, ok := strings.CutPrefix(key, p.resource.Resource+"/"); ok {
			return Root + p.place + rest
		}
	}
	return Root + key
}

// ResourceOf is the resource that a key is of. Of built-in kinds the group is not in the key; it is left empty.
func ResourceOf(key string) schema.GroupResource {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok {
		rest = strings.TrimPrefix(key, "/")
	}
	for _, p := range places {
		if strings.HasPrefix(rest, p.place) {
			return p.resource
		}
	}
	first, rest, _ := strings.Cut(rest, "/")
	if strings.Contains(first, ".") { // a group
		second, _, _ := strings.Cut(rest, "/")
		return schema.GroupResource{Group: first, Resource: second}
	}
	return schema.GroupResource{Group: groups[first], Resource: first}
}

// groups are those of built-in resources outside the core group.
var groups = func() map[string]string {
	out := map[string]string{}
	for group, resources := range map[string]string{
		"apps":                         "controllerrevisions daemonsets deployments replicasets statefulsets",
		"autoscaling":                  "horizontalpodautoscalers",
		"batch":                        "cronjobs jobs",
		"coordination.k8s.io":          "leases",
		"discovery.k8s.io":             "endpointslices",
		"networking.k8s.io":            "ingressclasses networkpolicies ipaddresses servicecidrs",
		"node.k8s.io":                  "runtimeclasses",
		"policy":                       "poddisruptionbudgets",
		"rbac.authorization.k8s.io":    "clusterrolebindings clusterroles rolebindings roles",
		"resource.k8s.io":              "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
		"scheduling.k8s.io":            "priorityclasses",
		"storage.k8s.io":               "csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses",
		"kernel.pintle.dev":            "plugins",
		"admissionregistration.k8s.io": "mutatingwebhookconfigurations validatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings mutatingadmissionpolicies mutatingadmissionpolicybindings",
		"certificates.k8s.io":          "certificatesigningrequests",
	} {
		for _, r := range strings.Fields(resources) {
			out[r] = group
		}
	}
	return out
}()

// resourcesOf counts the live keys by resource, in the order of their names.
func resourcesOf(s *store.Store) []Resource {
	counts := map[schema.GroupResource]*Resource{}
	s.Each(func(key string, _ uint64, size int64) {
		gr := ResourceOf(key)
		c := counts[gr]
		if c == nil {
			c = &Resource{Group: gr.Group, Resource: gr.Resource}
			counts[gr] = c
		}
		c.Objects++
		c.Bytes += size
	})
	out := make([]Resource, 0, len(counts))
	for _, c := range counts {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Resource) int {
		return strings.Compare(a.Resource+"."+a.Group, b.Resource+"."+b.Group)
	})
	return out
}
