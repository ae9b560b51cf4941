package resources

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestConfigMap(t *testing.T) {
	k := configMapKind()
	tests := []struct {
		name string
		in   *v1.ConfigMap
		want []string
	}{
		{"good", &v1.ConfigMap{ObjectMeta: objectMeta("a"), Data: map[string]string{"a.b_c-D": "x"}, BinaryData: map[string][]byte{"b": {0}}}, nil},
		{"name", &v1.ConfigMap{ObjectMeta: objectMeta("A")}, []string{`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		{"key", &v1.ConfigMap{ObjectMeta: objectMeta("a"), Data: map[string]string{"a/b": ""}}, []string{`data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`}},
		{"both", &v1.ConfigMap{ObjectMeta: objectMeta("a"), Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"a": nil}}, []string{`data[a]: Invalid value: "a": duplicate of key present in binaryData`}},
		{"size", &v1.ConfigMap{ObjectMeta: objectMeta("a"), Data: map[string]string{"a": strings.Repeat("x", 1<<20+1)}}, []string{`[]: Too long: may not be more than 1048576 bytes`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { sameErrors(t, created(k, tt.in), tt.want...) })
	}
	sameCells(t, k, &v1.ConfigMap{ObjectMeta: objectMeta("a"), Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"b": nil}}, "a", int64(2), "<unknown>")
}

// 002 §19 and §20: immutable cannot be taken back, and the data stays.
func TestImmutable(t *testing.T) {
	said := []string{
		"data: Forbidden: field is immutable when `immutable` is set",
		"immutable: Forbidden: field is immutable when `immutable` is set",
	}
	cm := configMapKind()
	old := &v1.ConfigMap{ObjectMeta: objectMeta("a"), Data: map[string]string{"a": "1"}, Immutable: yes}
	changed := old.DeepCopy()
	changed.Data["a"], changed.Immutable = "2", nil
	sameErrors(t, updated(cm.Strategy, changed, old), said...)
	binary := old.DeepCopy()
	binary.BinaryData = map[string][]byte{"b": {1}}
	sameErrors(t, updated(cm.Strategy, binary, old), "binaryData: Forbidden: field is immutable when `immutable` is set")
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	sameErrors(t, updated(cm.Strategy, labelled, old))

	secret := secretKind()
	was := &v1.Secret{ObjectMeta: objectMeta("a"), Type: v1.SecretTypeOpaque, Data: map[string][]byte{"a": []byte("1")}, Immutable: yes}
	now := was.DeepCopy()
	now.Immutable, now.StringData = nil, map[string]string{"a": "2"}
	sameErrors(t, updated(secret.Strategy, now, was), said...)
}

func TestConfigMapDefaults(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	o := &v1.ConfigMap{}
	s.Default(o)
	if o.Data == nil {
		t.Error("data is nil after defaults")
	}
}
