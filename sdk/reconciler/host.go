package reconciler

import (
	"encoding/json"
	"fmt"
	"time"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// Host is the controller's way to the API. It speaks with the controller's own
// identity, which may do what the manifest's rules say. Errors of the API are
// *StatusError.
type Host struct {
	transport
}

// function is a host function: a request goes, an answer comes. Each is named
// where it is used and nowhere else, so that a module imports, and asks a grant
// for, those alone that its author calls.
type function func(h *Host, request []byte) (answer []byte)

// Get reads an object into a struct or a *map[string]any.
func (h *Host) Get(r Resource, namespace, name string, into any) error {
	return h.do(callGet, protocol.Request{Resource: r.String(), Namespace: namespace, Name: name}, into)
}

// ListOptions narrow a list.
type ListOptions struct {
	LabelSelector, FieldSelector string
	Limit                        int64
	Continue                     string
}

// List reads a list of a namespace, or of all with an empty one.
func (h *Host) List(r Resource, namespace string, o ListOptions, into any) error {
	return h.do(callList, protocol.Request{
		Resource: r.String(), Namespace: namespace,
		LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector, Limit: o.Limit, Continue: o.Continue,
	}, into)
}

// Create writes a new object; into, which may be nil, receives it as stored.
func (h *Host) Create(r Resource, namespace string, object, into any) error {
	return h.write(callCreate, protocol.Request{Resource: r.String(), Namespace: namespace}, object, into)
}

// Update replaces an object of which the resourceVersion, where it is set, must
// be the stored one. subresource is empty, or such as status.
func (h *Host) Update(r Resource, namespace, subresource string, object, into any) error {
	return h.write(callUpdate, protocol.Request{Resource: r.String(), Namespace: namespace, Subresource: subresource}, object, into)
}

// PatchType says how a patch is meant.
type PatchType string

// The patches that the API takes.
const (
	JSONPatch      PatchType = "json"
	MergePatch     PatchType = "merge"
	StrategicPatch PatchType = "strategic"
	ApplyPatch     PatchType = "apply" // server-side apply, as the controller
)

// PatchOptions are what a patch may say beside its body.
type PatchOptions struct {
	Subresource string
	Force       bool // ApplyPatch: take fields that others own
}

// Patch changes an object; patch is marshalled, or raw JSON as json.RawMessage.
func (h *Host) Patch(r Resource, namespace, name string, t PatchType, patch any, o PatchOptions, into any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", r, Key{Namespace: namespace, Name: name}, err)
	}
	return h.do(callPatch, protocol.Request{
		Resource: r.String(), Namespace: namespace, Name: name, Subresource: o.Subresource,
		PatchType: string(t), Patch: body, Force: o.Force,
	}, into)
}

// DeleteOptions guard a deletion.
type DeleteOptions struct {
	UID, ResourceVersion string // preconditions
	PropagationPolicy    string // Background, Foreground, Orphan
}

// Delete asks for the deletion of an object.
func (h *Host) Delete(r Resource, namespace, name string, o DeleteOptions) error {
	return h.do(callDelete, protocol.Request{
		Resource: r.String(), Namespace: namespace, Name: name,
		UID: o.UID, ResourceVersion: o.ResourceVersion, PropagationPolicy: o.PropagationPolicy,
	}, nil)
}

// Object names what an event is about.
type Object struct {
	APIVersion, Kind, Namespace, Name, UID string
}

// Event types.
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)

// Event records what happened to an object. Like events are counted, not
// repeated; they are written in the background.
func (h *Host) Event(about Object, eventType, reason, message string) error {
	return h.do(callEvent, protocol.Request{
		APIVersion: about.APIVersion, Kind: about.Kind, Namespace: about.Namespace, Name: about.Name, UID: about.UID,
		Type: eventType, Reason: reason, Message: message,
	}, nil)
}

// Info writes a line to the kernel's log under the controller's name; keys and
// values alternate.
func (h *Host) Info(message string, keysAndValues ...any) { h.log(0, message, keysAndValues) }

// Error is Info for what went wrong.
func (h *Host) Error(message string, keysAndValues ...any) { h.log(8, message, keysAndValues) }

// Now is the host's clock.
func (h *Host) Now() time.Time { return time.Now() }

func (h *Host) log(level int, message string, keysAndValues []any) {
	record := protocol.Record{Level: level, Message: message}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if record.Attributes == nil {
			record.Attributes = map[string]any{}
		}
		value := keysAndValues[i+1]
		switch v := value.(type) {
		case error:
			value = v.Error()
		case fmt.Stringer:
			value = v.String()
		}
		record.Attributes[fmt.Sprint(keysAndValues[i])] = value
	}
	if line, err := json.Marshal(record); err == nil {
		callLog(h, line)
	}
}

func (h *Host) write(call function, request protocol.Request, object, into any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s: %w", request.Resource, err)
	}
	request.Object = body
	return h.do(call, request, into)
}

func (h *Host) do(call function, request protocol.Request, into any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: %w", request.Resource, err)
	}
	if len(data) > protocol.MaxRequestBytes {
		return fmt.Errorf("%s: request of %d bytes; at most %d are taken", request.Resource, len(data), protocol.MaxRequestBytes)
	}
	var answer protocol.Answer
	if err := json.Unmarshal(call(h, data), &answer); err != nil {
		return fmt.Errorf("%s: answer of the host: %w", request.Resource, err)
	}
	if answer.Status != nil {
		return &StatusError{Code: answer.Status.Code, Reason: answer.Status.Reason, Message: answer.Status.Message}
	}
	if into == nil || len(answer.Object) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer.Object, into); err != nil {
		return fmt.Errorf("%s: decode the answer: %w", request.Resource, err)
	}
	return nil
}
