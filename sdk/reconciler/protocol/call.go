package protocol

import "encoding/json"

// Host functions, as a manifest grants them and a module imports them.
const (
	FunctionGet    = "get"
	FunctionList   = "list"
	FunctionCreate = "create"
	FunctionUpdate = "update"
	FunctionPatch  = "patch"
	FunctionDelete = "delete"
	FunctionEvent  = "event"
	FunctionLog    = "log"
	FunctionNow    = "now"
	// FunctionAnswer copies what the last function answered into the module.
	FunctionAnswer = "answer"
)

// Operations are the host functions that reach the API: those that a manifest
// has to ask for.
func Operations() []string {
	return []string{FunctionGet, FunctionList, FunctionCreate, FunctionUpdate, FunctionPatch, FunctionDelete, FunctionEvent}
}

// Bounds of one call.
const (
	MaxRequestBytes = 4 << 20  // what a request may weigh
	MaxAnswerBytes  = 64 << 20 // what an answer may weigh: lists ask in pages
)

// Request is what get, list, create, update, patch, delete and event take;
// each reads the fields that it needs.
type Request struct {
	Resource    string `json:"resource,omitempty"` // as Resource.String
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Subresource string `json:"subresource,omitempty"` // update, patch: status, scale

	Object json.RawMessage `json:"object,omitempty"` // create, update

	LabelSelector string `json:"labelSelector,omitempty"` // list
	FieldSelector string `json:"fieldSelector,omitempty"`
	Limit         int64  `json:"limit,omitempty"`
	Continue      string `json:"continue,omitempty"`

	PatchType    string          `json:"patchType,omitempty"` // patch: json, merge, strategic, apply
	Patch        json.RawMessage `json:"patch,omitempty"`
	FieldManager string          `json:"fieldManager,omitempty"` // empty: the controller's name
	Force        bool            `json:"force,omitempty"`        // apply

	UID               string `json:"uid,omitempty"` // delete, event: of the object
	ResourceVersion   string `json:"resourceVersion,omitempty"`
	PropagationPolicy string `json:"propagationPolicy,omitempty"` // delete

	APIVersion string `json:"apiVersion,omitempty"` // event: of the object it is about
	Kind       string `json:"kind,omitempty"`
	Type       string `json:"type,omitempty"` // event: Normal or Warning
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
}

// Answer is what they return: the object, or why not.
type Answer struct {
	Object json.RawMessage `json:"object,omitempty"`
	Status *Status         `json:"status,omitempty"`
}

// Status is the API's refusal, the fields of metav1.Status that programs read.
type Status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// Record is a line of the log.
type Record struct {
	Level      int            `json:"level"` // as slog: -4 debug, 0 info, 4 warn, 8 error
	Message    string         `json:"message"`
	Attributes map[string]any `json:"attributes,omitempty"`
}
