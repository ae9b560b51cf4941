package manifest

import (
	"slices"
	"testing"
)

// Everything that an operator has to agree to is shown, and nothing else.
func TestAsks(t *testing.T) {
	m, err := Parse("manifest.yaml", []byte(`apiVersion: kernel.pintle.dev/v1alpha1
kind: PluginManifest
name: b
version: 1.0.0
privileged: true
network: true
lowPorts: true
files: [/etc/zones]
hostFunctions: [get, list]
rules:
- {apiGroups: ["", apps], resources: [pods, deployments], verbs: [list, watch]}
- {nonResourceURLs: [/metrics], verbs: [get]}
plugins:
- {name: p, kind: predicate}
- name: c
  kind: controller
  rules:
  - {apiGroups: [""], resources: [secrets], resourceNames: [one, two], verbs: ["*"]}
  - {namespace: kube-system, apiGroups: [""], resources: [secrets], verbs: [list]}
- name: a
  kind: admission
  phase: mutating
  admissionRules: [{operations: [CREATE], resources: [v1/secrets]}]
- name: v
  kind: admission
  phase: validating
  admissionRules: [{operations: [UPDATE, DELETE], resources: ["*/*/*"]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"privileged: its process has the kernel's own user and rights",
		"network: its process uses the machine's network",
		"lowPorts: its process may listen at ports below 1024",
		"files: reads /etc/zones",
		"rules of the bundle: list, watch: pods, pods.apps, deployments, deployments.apps",
		"rules of the bundle: get: /metrics",
		"rules of controller c: *: secrets one, two",
		"rules of controller c: list: secrets, in namespace kube-system alone",
		"admission plugin a: sees, and may change or refuse CREATE: v1/secrets",
		"admission plugin v: sees, and may refuse UPDATE, DELETE: */*/*",
		"host functions: get, list",
	}
	if got := m.Asks(); !slices.Equal(got, want) {
		t.Errorf("asks for\n%q, want\n%q", got, want)
	}
	if got := (&Manifest{Plugins: []Entry{{Name: "p", Kind: "predicate"}}}).Asks(); len(got) > 0 {
		t.Errorf("a predicate asks for %q", got)
	}
}
