package admission

import (
	"encoding/json"
	"fmt"
)

// Operation is what a request does.
type Operation string

// The operations of admission.k8s.io.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// GroupVersionKind and GroupVersionResource are as in requests of webhooks.
type (
	GroupVersionKind     struct{ Group, Version, Kind string }
	GroupVersionResource struct{ Group, Version, Resource string }
)

// UserInfo is who asks.
type UserInfo struct {
	Username string
	UID      string
	Groups   []string
}

// Request is what a plugin is asked about.
type Request struct {
	UID         string
	Kind        GroupVersionKind
	Resource    GroupVersionResource
	SubResource string
	Name        string // empty where the server makes it
	Namespace   string
	Operation   Operation
	UserInfo    UserInfo
	DryRun      bool
	// Object is what shall be stored (nil in deletions), OldObject what is.
	Object, OldObject json.RawMessage

	patch    []change
	warnings []string
}

// Into decodes the object into a struct or a map of the author's.
func (r *Request) Into(v any) error { return into(r.Object, v, "object") }

// Old is Into of what is stored already.
func (r *Request) Old(v any) error { return into(r.OldObject, v, "old object") }

func into(data json.RawMessage, v any, what string) error {
	if len(data) == 0 || string(data) == "null" {
		return fmt.Errorf("the request has no %s", what)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Warn adds a warning that the user sees whatever is decided.
func (r *Request) Warn(text string) { r.warnings = append(r.warnings, text) }

// change is one operation of a JSON patch (RFC 6902).
type change struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Set puts a value at a JSON pointer (RFC 6901), as /metadata/labels/team; the
// parent must be there. A value that cannot be encoded is a mistake of the
// author and panics.
func (r *Request) Set(pointer string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("set %s: %w", pointer, err))
	}
	r.patch = append(r.patch, change{Op: "add", Path: pointer, Value: data})
}

// Remove takes away what stands at a JSON pointer.
func (r *Request) Remove(pointer string) {
	r.patch = append(r.patch, change{Op: "remove", Path: pointer})
}

// response is AdmissionResponse of admission.k8s.io/v1, as far as it is used.
type response struct {
	Allowed   bool     `json:"allowed"`
	Status    *status  `json:"status,omitempty"`
	Patch     []byte   `json:"patch,omitempty"`
	PatchType string   `json:"patchType,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

type status struct {
	Code    int    `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}
