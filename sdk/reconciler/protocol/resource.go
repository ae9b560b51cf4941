package protocol

import (
	"fmt"
	"strings"
)

// Resource names a resource of the API in one version.
type Resource struct {
	Group    string // empty: the core group
	Version  string
	Resource string // plural, as in a URL: configmaps
}

// String returns group/version/resource, without an empty group: v1/configmaps,
// apps/v1/deployments.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Version + "/" + r.Resource
	}
	return r.Group + "/" + r.Version + "/" + r.Resource
}

// ParseResource is the inverse of String.
func ParseResource(s string) (Resource, error) {
	parts := strings.Split(s, "/")
	for _, p := range parts {
		if p == "" {
			parts = nil
		}
	}
	switch len(parts) {
	case 2:
		return Resource{Version: parts[0], Resource: parts[1]}, nil
	case 3:
		return Resource{Group: parts[0], Version: parts[1], Resource: parts[2]}, nil
	}
	return Resource{}, fmt.Errorf("resource %q: want version/resource or group/version/resource, such as v1/configmaps or apps/v1/deployments", s)
}

// Key names the object that a reconciler is asked about.
type Key struct {
	Namespace string `json:"namespace,omitempty"` // empty: the object has none
	Name      string `json:"name"`
}

// String returns namespace/name, or name.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}
