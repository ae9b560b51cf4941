package admissionrules

import (
	"slices"
	"testing"
)

func rule(operation string, resources ...string) []Rule {
	return []Rule{{Operations: []string{operation}, Resources: resources}}
}

func TestAsk(t *testing.T) {
	tests := map[string]struct {
		pattern, group, version, resource, subresource string
		want                                           bool
	}{
		"core":                         {"v1/pods", "", "v1", "pods", "", true},
		"core of another group":        {"v1/pods", "metrics.k8s.io", "v1", "pods", "", false},
		"core with subresource":        {"v1/pods/exec", "", "v1", "pods", "exec", true},
		"subresource is not meant":     {"v1/pods", "", "v1", "pods", "status", false},
		"group":                        {"apps/v1/deployments", "apps", "v1", "deployments", "", true},
		"group with subresource":       {"apps/v1/deployments/scale", "apps", "v1", "deployments", "scale", true},
		"any version":                  {"apps/*/deployments", "apps", "v1beta1", "deployments", "", true},
		"any resource":                 {"*/*/*", "apps", "v1", "deployments", "", true},
		"any resource, not below it":   {"*/*/*", "apps", "v1", "deployments", "scale", false},
		"any subresource":              {"v1/pods/*", "", "v1", "pods", "status", true},
		"any subresource is one":       {"v1/pods/*", "", "v1", "pods", "", false},
		"a word is no pattern":         {"pods", "", "v1", "pods", "", false},
		"what has too many parts":      {"a/b/c/d/e", "a", "b", "c", "d", false},
		"custom resources have a dot":  {"example.com/v1/toys", "example.com", "v1", "toys", "", true},
		"any is no Secret":             {"*/*/*", "", "v1", "secrets", "", false},
		"any of the core is no Secret": {"v1/*", "", "v1", "secrets", "", false},
		"a Secret by its name":         {"v1/secrets", "", "v1", "secrets", "", true},
		"a Secret of any version":      {"*/*/secrets", "", "v1", "secrets", "", true},
		"any is no token":              {"*/*/*/*", "", "v1", "serviceaccounts", "token", false},
		"any of accounts is no token":  {"v1/serviceaccounts/*", "", "v1", "serviceaccounts", "token", false},
		"any token is not named":       {"v1/*/token", "", "v1", "serviceaccounts", "token", false},
		"a token by its name":          {"v1/serviceaccounts/token", "", "v1", "serviceaccounts", "token", true},
		"any is no review of a token":  {"authentication.k8s.io/v1/*", "authentication.k8s.io", "v1", "tokenreviews", "", false},
		"any is no review of access":   {"*/*/*", "authorization.k8s.io", "v1", "subjectaccessreviews", "", false},
		"any is no role":               {"rbac.authorization.k8s.io/*/*", "rbac.authorization.k8s.io", "v1", "clusterroles", "", false},
		"a role by its name":           {"rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io", "v1", "clusterroles", "", true},
		"any is no Plugin":             {"*/*/*", "kernel.pintle.dev", "v1alpha1", "plugins", "", false},
		"secrets of another group":     {"*/*/*", "example.com", "v1", "secrets", "", true},
		"accounts are not tokens":      {"*/*/*", "", "v1", "serviceaccounts", "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := Request{"CREATE", test.group, test.version, test.resource, test.subresource}
			if got := Ask(rule("CREATE", test.pattern), r); got != test.want {
				t.Errorf("%s matches %+v: %v, want %v", test.pattern, r, got, test.want)
			}
			r.Operation = "DELETE"
			if Ask(rule("CREATE", test.pattern), r) {
				t.Errorf("%s of a create matches %+v", test.pattern, r)
			}
		})
	}
}

// A guest describes no more than its manifest asks for, and * asks for nothing
// that has to be named.
func TestBeyond(t *testing.T) {
	tests := map[string]struct {
		asked, described []Rule
		want             string
	}{
		"the same":                       {rule("CREATE", "v1/pods"), rule("CREATE", "v1/pods"), ""},
		"nothing":                        {rule("CREATE", "v1/pods"), nil, ""},
		"without asking":                 {nil, rule("CREATE", "v1/pods"), "CREATE of v1/pods"},
		"another operation":              {rule("CREATE", "v1/pods"), rule("DELETE", "v1/pods"), "DELETE of v1/pods"},
		"less":                           {rule("CREATE", "*/*/*"), rule("CREATE", "v1/pods"), ""},
		"more":                           {rule("CREATE", "v1/pods"), rule("CREATE", "v1/pods", "*/*/*"), "CREATE of */*/*"},
		"more of a group":                {rule("CREATE", "apps/v1/deployments"), rule("CREATE", "*/v1/deployments"), "CREATE of */v1/deployments"},
		"below it":                       {rule("CREATE", "*/*/*"), rule("CREATE", "v1/pods/status"), "CREATE of v1/pods/status"},
		"any below it":                   {rule("CREATE", "v1/pods/status"), rule("CREATE", "v1/pods/*"), "CREATE of v1/pods/*"},
		"a Secret of any":                {rule("CREATE", "*/*/*"), rule("CREATE", "v1/secrets"), "CREATE of v1/secrets"},
		"a Secret of any group":          {rule("CREATE", "*/*/*"), rule("CREATE", "*/*/secrets"), "CREATE of */*/secrets"},
		"a Secret by its name":           {rule("CREATE", "*/*/secrets"), rule("CREATE", "v1/secrets"), ""},
		"a token of any":                 {rule("CREATE", "v1/serviceaccounts/*"), rule("CREATE", "v1/serviceaccounts/token"), "CREATE of v1/serviceaccounts/token"},
		"any of any, which has no token": {rule("CREATE", "v1/serviceaccounts/*"), rule("CREATE", "v1/serviceaccounts/*"), ""},
		"a role of any":                  {rule("UPDATE", "rbac.authorization.k8s.io/*/*"), rule("UPDATE", "rbac.authorization.k8s.io/v1/roles"), "UPDATE of rbac.authorization.k8s.io/v1/roles"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Beyond(test.asked, test.described); got != test.want {
				t.Errorf("beyond %v is %q, want %q", test.asked, got, test.want)
			}
		})
	}
}

func TestFault(t *testing.T) {
	for pattern, good := range map[string]bool{"v1/pods": true, "*/*/*": true, "apps/v1/deployments/scale": true, "pods": false, "": false, "/": false, "v1/": false, "a/b/c/d/e": false, "v1/po ds": false} {
		if fault := (Rule{Operations: []string{"CREATE"}, Resources: []string{pattern}}).Fault(); (fault == "") != good {
			t.Errorf("%q: %q", pattern, fault)
		}
	}
	for _, r := range []Rule{{}, {Operations: []string{"CREATE"}}, {Resources: []string{"v1/pods"}}, {Operations: []string{"*"}, Resources: []string{"v1/pods"}}, {Operations: []string{"create"}, Resources: []string{"v1/pods"}}} {
		if r.Fault() == "" {
			t.Errorf("%+v is taken", r)
		}
	}
}

func TestNamed(t *testing.T) {
	got := Named(rule("CREATE", "v1/pods", "v1/secrets", "*/*/*", "*/*/secrets", "rbac.authorization.k8s.io/v1/roles", "v1/secrets"))
	if want := []string{"v1/secrets", "*/*/secrets", "rbac.authorization.k8s.io/v1/roles"}; !slices.Equal(got, want) {
		t.Errorf("named %q, want %q", got, want)
	}
}
