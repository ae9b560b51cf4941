package garbagecollector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// ignored are not watched: they come and go by the thousand, own nothing and
// are owned by nothing.
var ignored = map[schema.GroupResource]bool{
	{Resource: "events"}:                         true,
	{Group: "events.k8s.io", Resource: "events"}: true,
}

// resources is what discovery says.
type resources struct {
	// kinds are all that an owner reference can name.
	kinds map[schema.GroupVersionKind]kind
	// watched are the resources to watch, one version of each, with its kind.
	watched map[schema.GroupVersionResource]string
	// failed are the groups that gave no answer.
	failed map[string]bool
}

type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// discover asks the API for its resources. A group that gives no answer is
// noted, and the others are returned.
func discover(list func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)) (*resources, error) {
	groups, lists, err := list()
	found := &resources{kinds: map[schema.GroupVersionKind]kind{}, watched: map[schema.GroupVersionResource]string{}, failed: map[string]bool{}}
	if err != nil {
		failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
		if !partly {
			return nil, err
		}
		for gv := range failed {
			found.failed[gv.Group] = true
		}
	}
	if len(lists) == 0 {
		return nil, fmt.Errorf("discovery names no resources")
	}
	byVersion := map[string]*metav1.APIResourceList{}
	for _, l := range lists {
		byVersion[l.GroupVersion] = l
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") {
				found.kinds[gv.WithKind(r.Kind)] = kind{gv.WithResource(r.Name), r.Namespaced}
			}
		}
	}
	for _, g := range groups {
		versions := []string{g.PreferredVersion.GroupVersion}
		for _, v := range g.Versions {
			if v.GroupVersion != g.PreferredVersion.GroupVersion {
				versions = append(versions, v.GroupVersion)
			}
		}
		chosen := map[string]bool{}
		for _, version := range versions {
			l := byVersion[version]
			if l == nil {
				continue
			}
			gv, err := schema.ParseGroupVersion(version)
			if err != nil {
				continue
			}
			for _, r := range l.APIResources {
				if strings.Contains(r.Name, "/") || chosen[r.Name] || ignored[schema.GroupResource{Group: gv.Group, Resource: r.Name}] || !collectable(r) {
					continue
				}
				chosen[r.Name] = true
				found.watched[gv.WithResource(r.Name)] = r.Kind
			}
		}
	}
	return found, nil
}

func collectable(r metav1.APIResource) bool {
	for _, verb := range []string{"delete", "list", "watch"} {
		if !slices.Contains(r.Verbs, verb) {
			return false
		}
	}
	return true
}

// keep carries over what is known of groups that gave no answer now.
func (r *resources) keep(before *resources) {
	if before == nil || len(r.failed) == 0 {
		return
	}
	for gvk, k := range before.kinds {
		if r.failed[gvk.Group] {
			r.kinds[gvk] = k
		}
	}
	for gvr, k := range before.watched {
		if r.failed[gvr.Group] {
			r.watched[gvr] = k
		}
	}
}

func (r *resources) equal(other *resources) bool {
	return other != nil && maps.Equal(r.kinds, other.kinds) && maps.Equal(r.watched, other.watched)
}

// owner finds the resource that a reference names.
func (r *resources) owner(ref metav1.OwnerReference) (kind, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	k, ok := r.kinds[gvk]
	if !ok {
		return kind{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return k, nil
}
