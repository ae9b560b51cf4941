package admission

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestAsk(t *testing.T) {
	pod := Request{Operation: Create, UserInfo: UserInfo{Username: "ann"}, Object: []byte(`{"metadata":{"name":"p"}}`)}
	allow := func(*Request) error { return nil }
	tests := map[string]struct {
		ask      func() (Outcome, error)
		want     Outcome
		fails    string
		warnings []string
	}{
		"allows": {ask: func() (Outcome, error) { return Ask(Validator{Validate: allow}, pod) }, want: Outcome{Allowed: true}},
		"refuses": {ask: func() (Outcome, error) {
			return Ask(Validator{Validate: func(*Request) error { return errors.New("no") }}, pod)
		}, want: Outcome{Code: 403, Message: "no"}},
		"refuses with a code": {ask: func() (Outcome, error) {
			return Ask(Validator{Validate: func(*Request) error { return &Refusal{Code: 422, Reason: "Invalid", Message: "no"} }}, pod)
		}, want: Outcome{Code: 422, Message: "no"}},
		"warns": {ask: func() (Outcome, error) {
			return Ask(Validator{Validate: func(r *Request) error { r.Warn("mind"); return nil }}, pod)
		}, want: Outcome{Allowed: true}, warnings: []string{"mind"}},
		"changes": {ask: func() (Outcome, error) {
			return Ask(Mutator{Mutate: func(r *Request) error {
				r.Set("/metadata/labels", map[string]string{"by": r.UserInfo.Username})
				r.Remove("/metadata/name")
				return nil
			}}, pod)
		}, want: Outcome{Allowed: true, Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"by":"ann"}},{"op":"remove","path":"/metadata/name"}]`)}},
		"changes and may not": {ask: func() (Outcome, error) {
			return Ask(Validator{Validate: func(r *Request) error { r.Remove("/spec"); return nil }}, pod)
		}, fails: "a validator changed the object"},
		"reads what is not there": {ask: func() (Outcome, error) {
			return Ask(Validator{Validate: func(r *Request) error { return r.Old(&struct{}{}) }}, pod)
		}, want: Outcome{Code: 403, Message: "the request has no old object"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.ask()
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("error %v, want %q", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Allowed != test.want.Allowed || got.Code != test.want.Code || got.Message != test.want.Message || string(got.Patch) != string(test.want.Patch) || !slices.Equal(got.Warnings, test.warnings) {
				t.Errorf("outcome %+v, want %+v with warnings %q", got, test.want, test.warnings)
			}
		})
	}
}

// What cannot be served is told by the author's first test.
func TestRegisterRefuses(t *testing.T) {
	allow := func(*Request) error { return nil }
	tests := map[string]struct {
		plugin Validator
		want   string
	}{
		"no function":        {Validator{Name: "a", Rules: []Rule{{Resources: []string{"v1/pods"}}}}, "has no function to ask"},
		"no rules":           {Validator{Name: "a", Validate: allow}, "has no rules"},
		"no resources":       {Validator{Name: "a", Validate: allow, Rules: []Rule{{}}}, "a rule without resources matches nothing"},
		"a word":             {Validator{Name: "a", Validate: allow, Rules: []Rule{{Resources: []string{"pods"}}}}, `resource "pods": want such as v1/pods`},
		"unknown operation":  {Validator{Name: "a", Validate: allow, Rules: []Rule{{Operations: []Operation{"READ"}, Resources: []string{"v1/pods"}}}}, `operation "READ"`},
		"a name with spaces": {Validator{Name: "a b", Validate: allow, Rules: []Rule{{Resources: []string{"v1/pods"}}}}, `name "a b"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(r.(string), test.want) {
					t.Errorf("panic %v, want %q", r, test.want)
				}
			}()
			Register(test.plugin)
		})
	}
}
