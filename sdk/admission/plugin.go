package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pintle.dev/pintle/sdk"
)

// Rule says which requests a plugin is asked about.
type Rule struct {
	// Operations; none: CREATE and UPDATE.
	Operations []Operation
	// Resources as version/resource or group/version/resource, with /subresource
	// behind it where that is meant: v1/pods, apps/v1/deployments,
	// v1/pods/ephemeralcontainers of the core group. Group, version, resource and
	// subresource may be *.
	Resources []string
}

// Validator may refuse a request.
type Validator struct {
	Name      string
	Rules     []Rule
	Configure func(config []byte) error
	// Validate returns why the request is refused, or nil. A *Refusal says the
	// code and reason too; any other error refuses with 403 Forbidden.
	Validate func(r *Request) error
}

// Mutator may change the object of a request, by Request.Set and Remove, or
// refuse it as a Validator does.
type Mutator struct {
	Name      string
	Rules     []Rule
	Configure func(config []byte) error
	Mutate    func(r *Request) error
}

// Refusal is an error with the API's code and reason, such as 422 and Invalid.
type Refusal struct {
	Code            int
	Reason, Message string
}

func (r *Refusal) Error() string { return r.Message }

// Register adds a plugin to this bundle. Call it from init; what cannot be
// served is a mistake of the author and panics.
func Register[P Validator | Mutator](plugin P) {
	m := mutator(plugin)
	a := sdk.Announcement{Kind: sdk.KindAdmission, Name: m.Name, Configure: m.Configure, Phase: sdk.PhaseValidating}
	if mutates(plugin) {
		a.Phase = sdk.PhaseMutating
	}
	if m.Mutate == nil {
		panic("admission.Register: " + a.Name + " has no function to ask")
	}
	if len(m.Rules) == 0 {
		panic("admission.Register: " + a.Name + " has no rules")
	}
	for _, r := range m.Rules {
		rule, err := r.announced()
		if err != nil {
			panic("admission.Register: " + a.Name + ": " + err.Error())
		}
		a.Rules = append(a.Rules, rule)
	}
	a.Admit = func(request []byte) ([]byte, error) { return answer(request, m.Mutate, mutates(plugin)) }
	sdk.Announce(a)
}

// mutator is the form that both kinds are asked in.
func mutator[P Validator | Mutator](plugin P) Mutator {
	if v, ok := any(plugin).(Validator); ok {
		return Mutator{Name: v.Name, Rules: v.Rules, Configure: v.Configure, Mutate: v.Validate}
	}
	return any(plugin).(Mutator)
}

func mutates[P Validator | Mutator](plugin P) bool {
	_, ok := any(plugin).(Mutator)
	return ok
}

func (r Rule) announced() (sdk.AdmissionRule, error) {
	out := sdk.AdmissionRule{Resources: r.Resources}
	if len(r.Operations) == 0 {
		r.Operations = []Operation{Create, Update}
	}
	for _, o := range r.Operations {
		switch o {
		case Create, Update, Delete, Connect:
			out.Operations = append(out.Operations, string(o))
		default:
			return out, fmt.Errorf("operation %q: want CREATE, UPDATE, DELETE or CONNECT", o)
		}
	}
	if len(r.Resources) == 0 {
		return out, errors.New("a rule without resources matches nothing")
	}
	for _, s := range r.Resources {
		if n := strings.Count(s, "/"); n < 1 || n > 3 || strings.ContainsAny(s, "\"\\ ") {
			return out, fmt.Errorf("resource %q: want such as v1/pods or apps/v1/deployments", s)
		}
	}
	return out, nil
}

// answer decodes a request, asks and encodes what comes of it.
func answer(data []byte, review func(*Request) error, mutates bool) ([]byte, error) {
	var r Request
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("admission request: %w", err)
	}
	err := review(&r)
	out := response{Allowed: err == nil, Warnings: r.warnings}
	if err != nil {
		out.Status = &status{Code: 403, Reason: "Forbidden", Message: err.Error()}
		var refusal *Refusal
		if errors.As(err, &refusal) {
			out.Status = &status{Code: refusal.Code, Reason: refusal.Reason, Message: refusal.Message}
		}
	}
	if err == nil && len(r.patch) > 0 {
		if !mutates {
			return nil, errors.New("a validator changed the object; register a Mutator for that")
		}
		if out.Patch, err = json.Marshal(r.patch); err != nil {
			return nil, err
		}
		out.PatchType = "JSONPatch"
	}
	return json.Marshal(out)
}

// Serve serves everything registered in this binary; it is sdk.Serve.
func Serve() { sdk.Serve() }
