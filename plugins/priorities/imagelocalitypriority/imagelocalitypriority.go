// Package imagelocalitypriority is the priority ImageLocalityPriority: the more
// bytes of the pod's images a node has already, the better (PRI-32).
package imagelocalitypriority

import (
	"slices"
	"strings"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "ImageLocalityPriority"

// Sums below floor score 0, those of ceiling or more 10 (FIL-8). A megabyte has
// 1024 × 1024 bytes, as where these two numbers come from.
const (
	mb      = 1024 * 1024
	floor   = 23 * mb
	ceiling = 1000 * mb
)

// New returns the priority. It keeps no state and takes no configuration.
func New() sdk.Priority {
	return sdk.Priority{Name: Name, Scope: sdk.ScopeNodeObject, Normalize: sdk.NormalizeNone, Prepare: prepare, Score: score}
}

// prepare lists the image of each container, under the full name that nodes
// report: without tag or digest means latest.
func prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	names := make([]string, 0, len(pod.Containers))
	for i := range pod.Containers {
		name := pod.Containers[i].Image
		if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
			name += ":latest"
		}
		names = append(names, name)
	}
	return names
}

// score sums the sizes container by container (PRI-33), so that an image used
// twice counts twice.
func score(r *sdk.Request) int64 {
	names, ok := r.State.([]string)
	if !ok {
		names = prepare(r.Cluster, r.Pod).([]string)
	}
	var sum int64
	for _, name := range names {
		for i := range r.Node.Images {
			if slices.Contains(r.Node.Images[i].Names, name) {
				sum += r.Node.Images[i].SizeBytes
				break
			}
		}
	}
	switch {
	case sum < floor:
		return 0
	case sum >= ceiling:
		return sdk.MaxScore
	}
	return sdk.MaxScore*(sum-floor)/(ceiling-floor) + 1
}
