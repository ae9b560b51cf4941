package enablement

import (
	_ "embed"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// list has a resource a line, as group/version/resource; the core group's begin with
// the slash. A test of kernel/api compares it with what a server could serve.
//
//go:embed resources.txt
var list string

// off has the versions that Kubernetes serves where it is asked to, and this kernel does
// not: group/version, one a line. A test of kernel/api compares them with Kubernetes' own.
//
//go:embed off.txt
var off string

// isOff reports whether a group version is one of those.
func isOff(gv schema.GroupVersion) bool {
	return slices.Contains(strings.Fields(off), gv.String())
}

// Known are the resources that a server could serve, for checks without one.
func Known() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for line := range strings.Lines(list) {
		if parts := strings.Split(strings.TrimSpace(line), "/"); len(parts) == 3 {
			out = append(out, schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
		}
	}
	return out
}

// Check says what is wrong with overrides: of single keys, and if that is nothing, of
// all together.
func Check(overrides map[string]string) (keys map[string]error, whole error) {
	known := Known()
	r := registry{}
	for _, gvr := range known {
		if r[gvr.GroupVersion()] == nil {
			r[gvr.GroupVersion()] = map[string]bool{}
		}
		r[gvr.GroupVersion()][gvr.Resource] = true
	}
	keys = map[string]error{}
	for key := range overrides {
		if err := r.check(key); err != nil {
			keys[key] = err
		}
	}
	if len(keys) > 0 {
		return keys, nil
	}
	_, whole = New(known, overrides)
	return keys, whole
}
