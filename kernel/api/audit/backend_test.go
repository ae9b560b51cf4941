package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func asked(who, verb, group, resource, sub string) authorizer.Attributes {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: verb, APIGroup: group, APIVersion: "v1",
		Namespace: "n", Name: "x", Resource: resource, Subresource: sub, ResourceRequest: true}
}

func path(verb, path string) authorizer.Attributes {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u"}, Verb: verb, Path: path}
}

func TestDefaultPolicy(t *testing.T) {
	a, err := New(Options{LogPath: filepath.Join(t.TempDir(), "audit", "audit.log")})
	if err != nil {
		t.Fatal(err)
	}
	const rbac = "rbac.authorization.k8s.io"
	for _, tt := range []struct {
		name string
		a    authorizer.Attributes
		want auditinternal.Level
	}{
		{"a secret is read", asked("u", "get", "", "secrets", ""), auditinternal.LevelMetadata},
		{"secrets are listed", asked("u", "list", "", "secrets", ""), auditinternal.LevelMetadata},
		{"a secret is written", asked("u", "update", "", "secrets", ""), auditinternal.LevelMetadata},
		{"a token is made", asked("u", "create", "", "serviceaccounts", "token"), auditinternal.LevelMetadata},
		{"exec", asked("u", "create", "", "pods", "exec"), auditinternal.LevelMetadata},
		{"exec by the node", asked("u", "get", "", "nodes", "proxy"), auditinternal.LevelMetadata},
		{"a backup", path("get", "/kernel/store/backup"), auditinternal.LevelMetadata},
		{"a role is changed", asked("u", "patch", rbac, "clusterroles", ""), auditinternal.LevelRequest},
		{"a role is read", asked("u", "get", rbac, "clusterroles", ""), auditinternal.LevelNone},
		{"a plugin is changed", asked("u", "update", "kernel.pintle.dev", "plugins", ""), auditinternal.LevelMetadata},
		{"a plugin's status", asked("u", "update", "kernel.pintle.dev", "plugins", "status"), auditinternal.LevelNone},
		{"the server itself", asked("system:apiserver", "list", "", "secrets", ""), auditinternal.LevelNone},
		{"a pod is made", asked("u", "create", "", "pods", ""), auditinternal.LevelNone},
		{"a page", path("get", "/healthz"), auditinternal.LevelNone},
	} {
		if got := a.Policy.EvaluatePolicyRule(tt.a).Level; got != tt.want {
			t.Errorf("%s: level %s, want %s", tt.name, got, tt.want)
		}
	}
}

// No policy can have secrets themselves recorded.
func TestBodiesOfSecretsAreNever(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{LogPath: filepath.Join(dir, "log"), PolicyFile: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		group, resource, sub string
		want                 auditinternal.Level
	}{
		{"", "secrets", "", auditinternal.LevelMetadata},
		{"", "serviceaccounts", "token", auditinternal.LevelMetadata},
		{"authentication.k8s.io", "tokenreviews", "", auditinternal.LevelMetadata},
		{"", "configmaps", "", auditinternal.LevelRequestResponse},
		{"example.com", "secrets", "", auditinternal.LevelRequestResponse},
	} {
		if got := a.Policy.EvaluatePolicyRule(asked("u", "create", r.group, r.resource, r.sub)).Level; got != r.want {
			t.Errorf("%+v: level %s", r, got)
		}
	}
}

func TestFaultsAreFoundAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := filepath.Join(dir, "log")
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"no policy", Options{LogPath: log, PolicyFile: filepath.Join(dir, "nowhere")}, "nowhere"},
		{"no rules", Options{LogPath: log, PolicyFile: file("empty", "apiVersion: audit.k8s.io/v1\nkind: Policy\n")}, "empty"},
		{"a word wrong", Options{LogPath: log, PolicyFile: file("word", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Loud}]\n")}, "Loud"},
		{"log in a file", Options{LogPath: filepath.Join(file("plain", ""), "log")}, "plain"},
		{"no webhook", Options{WebhookConfig: filepath.Join(dir, "hook")}, "hook"},
	} {
		if _, err := New(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if a, err := New(Options{PolicyFile: "nowhere"}); err != nil || a.Backend != nil || a.Policy != nil {
		t.Errorf("without a log and a webhook: %v, %v", a, err)
	}
}
