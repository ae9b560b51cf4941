package api

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/kernel/api/aggregation"
)

// apiGroup lists a group's versions, the preferred one first.
func apiGroup(name string, versions []string) metav1.APIGroup {
	place := func(version string) int32 {
		return aggregation.BuiltinPriority(schema.GroupVersion{Group: name, Version: version}).Version
	}
	slices.SortFunc(versions, func(a, b string) int { return cmp.Compare(place(b), place(a)) })
	out := metav1.APIGroup{Name: name}
	for _, v := range versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}
