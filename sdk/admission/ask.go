package admission

import (
	"encoding/json"
	"fmt"
)

// Outcome is what a plugin makes of a request.
type Outcome struct {
	Allowed  bool
	Code     int    // of a refusal, such as 403
	Message  string // of a refusal
	Warnings []string
	// Patch is the JSON patch (RFC 6902) of a Mutator; nil: it changes nothing.
	Patch json.RawMessage
}

// Ask asks a plugin as the kernel would, through the encoded forms; it is for
// tests. The error says that the plugin could not answer.
func Ask[P Validator | Mutator](plugin P, r Request) (Outcome, error) {
	request, err := json.Marshal(&r)
	if err != nil {
		return Outcome{}, fmt.Errorf("admission request: %w", err)
	}
	data, err := answer(request, mutator(plugin).Mutate, mutates(plugin))
	if err != nil {
		return Outcome{}, err
	}
	var got response
	if err := json.Unmarshal(data, &got); err != nil {
		return Outcome{}, fmt.Errorf("admission response: %w", err)
	}
	out := Outcome{Allowed: got.Allowed, Warnings: got.Warnings, Patch: got.Patch}
	if got.Status != nil {
		out.Code, out.Message = got.Status.Code, got.Status.Message
	}
	return out, nil
}
