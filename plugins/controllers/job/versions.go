package job

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

var (
	jobsResource = schema.GroupResource{Group: "batch", Resource: "jobs"}
	podsResource = schema.GroupResource{Resource: "pods"}
)

// versions knows for each Job the newest resource versions that its syncs
// wrote, so that the next sync waits until the caches have them
// (StaleControllerConsistencyJob).
type versions struct {
	// read returns the version that a cache has come to, empty if it does not
	// know.
	read map[schema.GroupResource]func() string

	mu      sync.Mutex
	written map[types.UID]map[schema.GroupResource]string
}

func newVersions(read map[schema.GroupResource]func() string) *versions {
	return &versions{read: read, written: map[types.UID]map[schema.GroupResource]string{}}
}

// wrote notes a write for the Job.
func (v *versions) wrote(job types.UID, r schema.GroupResource, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.written[job]
	if of == nil {
		of = map[schema.GroupResource]string{}
		v.written[job] = of
	}
	if old, there := of[r]; there {
		if c, err := resourceversion.CompareResourceVersion(old, version); err == nil && c >= 0 {
			return
		}
	}
	of[r] = version
}

// behind returns the resource whose cache lacks a write of the Job. If none
// does, what was written is forgotten.
func (v *versions) behind(job types.UID) (schema.GroupResource, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for r, wrote := range v.written[job] {
		has := v.read[r]()
		if has == "" {
			continue
		}
		// Versions that cannot be compared must not hold a Job back for ever.
		if c, err := resourceversion.CompareResourceVersion(wrote, has); err == nil && c > 0 {
			return r, true
		}
	}
	delete(v.written, job)
	return schema.GroupResource{}, false
}

func (v *versions) forget(job types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.written, job)
}
