package resources

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestSecretTypes(t *testing.T) {
	k := secretKind()
	data := func(pairs ...string) map[string][]byte {
		m := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = []byte(pairs[i+1])
		}
		return m
	}
	tests := []struct {
		name string
		typ  v1.SecretType
		data map[string][]byte
		want []string
	}{
		{"opaque", v1.SecretTypeOpaque, data("a", "b"), nil},
		{"own", "example.com/own", nil, nil},
		{"token", v1.SecretTypeServiceAccountToken, nil, []string{"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
		{"dockercfg", v1.SecretTypeDockercfg, nil, []string{"data[.dockercfg]: Required value"}},
		{"dockerconfigjson", v1.SecretTypeDockerConfigJson, data(".dockerconfigjson", "{"), []string{`data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input`}},
		{"basic-auth", v1.SecretTypeBasicAuth, nil, []string{"data[username]: Required value", "data[password]: Required value"}},
		{"basic-auth user", v1.SecretTypeBasicAuth, data("username", ""), nil},
		{"ssh-auth", v1.SecretTypeSSHAuth, data("ssh-privatekey", ""), []string{"data[ssh-privatekey]: Required value"}},
		{"tls", v1.SecretTypeTLS, data("tls.crt", ""), []string{"data[tls.key]: Required value"}},
		{"key", v1.SecretTypeOpaque, data("..", "b"), []string{`data[..]: Invalid value: "..": must not be '..'`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sameErrors(t, created(k, &v1.Secret{ObjectMeta: objectMeta("a"), Type: tt.typ, Data: tt.data}), tt.want...)
		})
	}
}

// SEC-1: stringData is written and never read back.
func TestSecretStringData(t *testing.T) {
	o := &v1.Secret{ObjectMeta: objectMeta("a"), Data: map[string][]byte{"a": []byte("1"), "b": []byte("1")}, StringData: map[string]string{"a": "2"}}
	setSecretDefaults(o)
	if o.StringData != nil || string(o.Data["a"]) != "2" || string(o.Data["b"]) != "1" || o.Type != v1.SecretTypeOpaque {
		t.Errorf("after defaults: %v %v %q", o.StringData, o.Data, o.Type)
	}
}

func TestSecretUpdate(t *testing.T) {
	k := secretKind()
	old := &v1.Secret{ObjectMeta: objectMeta("a"), Type: "example.com/a"}
	o := old.DeepCopy()
	o.Type = ""
	sameErrors(t, updated(k.Strategy, o, old))
	if o.Type != old.Type {
		t.Errorf("an empty type becomes %q, want the old one", o.Type)
	}
	o.Type = "example.com/b"
	sameErrors(t, updated(k.Strategy, o, old), `type: Invalid value: "example.com/b": field is immutable`)
}

func TestSecretTable(t *testing.T) {
	k := secretKind()
	sameCells(t, k, &v1.Secret{ObjectMeta: objectMeta("a"), Type: "t", Data: map[string][]byte{"a": nil}}, "a", "t", int64(1), "<unknown>")
	if got := k.Fields(&v1.Secret{Type: "t"}); got["type"] != "t" {
		t.Errorf("fields %v", got)
	}
}

func TestSecretWarnings(t *testing.T) {
	w := secretKind().Strategy.WarningsOnCreate(context.Background(), &v1.Secret{Type: v1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")}})
	if len(w) != 1 || w[0] != "tls: failed to find any PEM data in certificate input" {
		t.Errorf("warnings %q", w)
	}
}

func TestServiceAccount(t *testing.T) {
	k := serviceAccountKind()
	o := &v1.ServiceAccount{ObjectMeta: objectMeta("a"), Secrets: []v1.ObjectReference{{Name: "s", Namespace: "other", Kind: "Secret"}}}
	o.Annotations = map[string]string{enforceMountableSecrets: "true"}
	sameErrors(t, created(k, o))
	if o.Secrets[0] != (v1.ObjectReference{Name: "s"}) {
		t.Errorf("secret reference is kept as %+v", o.Secrets[0])
	}
	if w := k.Strategy.WarningsOnCreate(context.Background(), o); len(w) != 1 ||
		w[0] != "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets" {
		t.Errorf("warnings %q", w)
	}
	if w := k.Strategy.WarningsOnUpdate(context.Background(), o, o); len(w) != 0 {
		t.Errorf("warned again: %q", w)
	}
	sameCells(t, k, o, "a", "<unknown>")
}
