package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pintle.dev/pintle/e2e/cluster"
)

// TestAdmissionKinds: kubectl makes, shows, explains and deletes webhook configurations
// and policies, which hold for kubectl itself.
func TestAdmissionKinds(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	e := launched(t, cluster.Options{Name: "admissionkinds", Config: bareConfig(t)})
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: colours}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets]}]}
  variables: [{name: colour, expression: "object.metadata.?labels.colour.orValue('none')"}]
  validations: [{expression: "variables.colour in params.data.allowed.split(',')", messageExpression: "'no secret may be ' + variables.colour"}]
  auditAnnotations: [{key: colour, valueExpression: "string(variables.colour)"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: colours}
data: {allowed: "red,green"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: colours}
spec:
  policyName: colours
  validationActions: [Deny]
  paramRef: {name: colours, namespace: `+ns+`, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+ns+`}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {'made-by': request.userInfo.username}}}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owner}
spec: {policyName: owner}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: nowhere}
webhooks:
- name: nowhere.example.com
  clientConfig: {url: "https://127.0.0.1:1/review"}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [services]}]
`)
	in := func(args ...string) string { t.Helper(); return e.kubectl(t, append([]string{"-n", ns}, args...)...) }
	refused := func(words string, args ...string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if r := e.try(t, append([]string{"-n", ns}, args...)...); r.err == nil || !strings.Contains(r.stdout+r.stderr, words) {
				return fmt.Errorf("kubectl %s: %v\n%s%s\nwant %q", strings.Join(args, " "), r.err, r.stdout, r.stderr, words)
			}
			return nil
		})
	}
	refused("no secret may be none", "create", "secret", "generic", "plain", "--dry-run=server")
	e.apply(t, ns, "apiVersion: v1\nkind: Secret\nmetadata: {name: red, labels: {colour: red}}\n")
	eventually(t, func(context.Context) error {
		e.apply(t, ns, "apiVersion: v1\nkind: Secret\nmetadata: {name: green, labels: {colour: green}}\n")
		made := in("get", "secret", "green", "-o", `jsonpath={.metadata.annotations.made-by}`)
		in("delete", "secret", "green")
		if made == "" {
			return errors.New("a policy does not annotate secrets")
		}
		return nil
	})
	refused(`failed calling webhook "nowhere.example.com"`, "create", "service", "clusterip", "s", "--tcp=80")
	contains(t, in("get", "validatingadmissionpolicies"), "VALIDATIONS", "PARAMKIND", "v1/ConfigMap")
	contains(t, in("get", "validatingadmissionpolicybindings,mutatingadmissionpolicybindings"), "POLICYNAME", "PARAMREF", ns+"/colours", "<unset>")
	contains(t, in("get", "mutatingadmissionpolicies"), "MUTATIONS", "owner")
	contains(t, in("get", "api-extensions"), "mutatingwebhookconfiguration.admissionregistration.k8s.io/nowhere", "validatingadmissionpolicy.admissionregistration.k8s.io/colours")
	contains(t, in("explain", "validatingadmissionpolicy.spec.validations"), "messageExpression")
	contains(t, in("describe", "mutatingwebhookconfiguration", "nowhere"), "Failure Policy:", "Fail", "Timeout Seconds:", "10")
	contains(t, in("patch", "mutatingwebhookconfiguration", "nowhere", "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`), "patched")
	eventually(t, func(context.Context) error {
		return e.try(t, "-n", ns, "create", "service", "clusterip", "s", "--tcp=80", "--dry-run=server").err
	})
	contains(t, in("delete", "mutatingwebhookconfiguration/nowhere", "validatingadmissionpolicybinding/colours"), "deleted")
}
