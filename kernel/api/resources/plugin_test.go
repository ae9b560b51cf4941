package resources

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func fitsResources() *v1alpha1.Plugin {
	return &v1alpha1.Plugin{ObjectMeta: clusterMeta("PodFitsResources"), Spec: v1alpha1.PluginSpec{Bundle: "classic", Kind: v1alpha1.PluginKindPredicate}}
}

func TestPluginValidation(t *testing.T) {
	k := pluginKind()
	tests := []struct {
		name   string
		change func(*v1alpha1.PluginSpec)
		want   []string
	}{
		{"good", func(s *v1alpha1.PluginSpec) {
			s.Transport, s.OnFailure, s.Digest = v1alpha1.PluginTransportWASM, v1alpha1.PluginFailureIgnore, "sha256:"+strings.Repeat("0a", 32)
			s.Timeout = &metav1.Duration{Duration: time.Second}
			s.Config = &runtime.RawExtension{Raw: []byte(`{"maxVolumes":5}`)}
			s.Limits = &v1alpha1.PluginLimits{Memory: ptr.To(resource.MustParse("64Mi"))}
		}, nil},
		{"empty", func(s *v1alpha1.PluginSpec) { *s = v1alpha1.PluginSpec{} }, []string{"spec.bundle: Required value", "spec.kind: Required value"}},
		{"words", func(s *v1alpha1.PluginSpec) { s.Kind, s.Transport, s.OnFailure = "magic", "pigeon", "cry" }, []string{
			`spec.kind: Unsupported value: "magic": supported values: "predicate", "priority", "pre-enqueue", "queue-sort", "pre-filter", "post-filter", "pre-score", "reserve", "permit", "pre-bind", "bind", "post-bind", "controller", "admission", "runtime", "proxy", "network", "apiserver", "cloud", "unknown"`,
			`spec.transport: Unsupported value: "pigeon": supported values: "wasm", "process"`,
			`spec.onFailure: Unsupported value: "cry": supported values: "refuse", "ignore"`,
			"spec.onFailure: Forbidden: may only be specified for plugins of the scheduler and of admission",
		}},
		{"bundle path", func(s *v1alpha1.PluginSpec) { s.Bundle = "../classic" }, []string{`spec.bundle: Invalid value: "../classic": may not contain '/'`}},
		{"digest", func(s *v1alpha1.PluginSpec) { s.Digest = "abc" }, []string{`spec.digest: Invalid value: "abc": must be sha256: and 64 hexadecimal digits`}},
		{"weight", func(s *v1alpha1.PluginSpec) { s.Weight = ptr.To[int64](1) }, []string{"spec.weight: Forbidden: may only be specified for priorities"}},
		{"zero weight", func(s *v1alpha1.PluginSpec) { s.Kind, s.Weight = v1alpha1.PluginKindPriority, ptr.To[int64](0) }, []string{"spec.weight: Invalid value: 0: must be between 1 and 1000000, inclusive"}},
		{"timeout", func(s *v1alpha1.PluginSpec) { s.Timeout = &metav1.Duration{Duration: time.Hour} }, []string{`spec.timeout: Invalid value: "1h0m0s": must be between 1ms and 1m0s, inclusive`}},
		{"profiles and shadow", func(s *v1alpha1.PluginSpec) {
			s.Profiles = []string{"default-scheduler", "packer"}
			s.Shadow = &v1alpha1.PluginShadowSpec{Version: "1.1.0"}
		}, nil},
		{"bad profiles", func(s *v1alpha1.PluginSpec) { s.Profiles = []string{"a", "", "a", strings.Repeat("x", 254)} }, []string{
			"spec.profiles[1]: Required value", `spec.profiles[2]: Duplicate value: "a"`, "spec.profiles[3]: Too long: may not be more than 253 bytes",
		}},
		{"a rollback", func(s *v1alpha1.PluginSpec) { s.RollbackTo = &v1alpha1.PluginRollback{} }, nil},
		{"a rollback to no revision", func(s *v1alpha1.PluginSpec) { s.RollbackTo = &v1alpha1.PluginRollback{Revision: -1} }, []string{
			"spec.rollbackTo.revision: Invalid value: -1: must be greater than or equal to 0",
		}},
		{"bad shadow", func(s *v1alpha1.PluginSpec) { s.Shadow = &v1alpha1.PluginShadowSpec{} }, []string{"spec.shadow: Required value: must have a version or a digest"}},
		{"shadow digest", func(s *v1alpha1.PluginSpec) { s.Shadow = &v1alpha1.PluginShadowSpec{Digest: "abc"} }, []string{
			`spec.shadow.digest: Invalid value: "abc": must be sha256: and 64 hexadecimal digits`,
		}},
		{"controllers are in no profile", func(s *v1alpha1.PluginSpec) {
			s.Kind, s.Profiles, s.Shadow = v1alpha1.PluginKindController, []string{"a"}, &v1alpha1.PluginShadowSpec{Version: "1"}
		}, []string{
			"spec.profiles: Forbidden: may only be specified for plugins of the scheduler",
			"spec.shadow: Forbidden: may only be specified for predicates and priorities",
		}},
		{"limits", func(s *v1alpha1.PluginSpec) {
			s.Limits = &v1alpha1.PluginLimits{Memory: ptr.To(resource.MustParse("0")), CPU: ptr.To(resource.MustParse("-1"))}
		}, []string{`spec.limits.memory: Invalid value: "0": must be greater than zero`, `spec.limits.cpu: Invalid value: "-1": must be greater than zero`}},
		{"host functions", func(s *v1alpha1.PluginSpec) { s.HostFunctions = []string{"get", "", "get"} }, []string{
			"spec.hostFunctions[1]: Required value", `spec.hostFunctions[2]: Duplicate value: "get"`,
		}},
		{"config", func(s *v1alpha1.PluginSpec) { s.Config = &runtime.RawExtension{Raw: []byte("{")} }, []string{`spec.config: Invalid value: "<value omitted>": must be valid JSON`}},
		{"large config", func(s *v1alpha1.PluginSpec) { s.Config = &runtime.RawExtension{Raw: make([]byte, maxPluginConfig+1)} }, []string{"spec.config: Too long: may not be more than 262144 bytes"}},
		{"permissions", func(s *v1alpha1.PluginSpec) {
			s.Permissions = []v1alpha1.PluginPermission{{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}}}}
		}, []string{"spec.permissions[0].verbs: Required value: verbs must contain at least one value"}},
		{"permissions in a namespace", func(s *v1alpha1.PluginSpec) {
			s.Permissions = []v1alpha1.PluginPermission{
				{Namespace: "kube-system", PolicyRule: rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
				{Namespace: "../x", PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
			}
		}, []string{
			`spec.permissions[0].nonResourceURLs: Invalid value: ["/metrics"]: namespaced rules cannot apply to non-resource URLs`,
			`spec.permissions[1].namespace: Invalid value: "../x": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := fitsResources()
			tt.change(&o.Spec)
			sameErrors(t, created(k, o), tt.want...)
		})
	}
}

func TestPluginUpdate(t *testing.T) {
	k := pluginKind()
	old := fitsResources()
	defaulting(t).Default(old)
	if !*old.Spec.Enabled {
		t.Error("a plugin is not enabled by default")
	}
	old.Generation, old.Status.State = 1, v1alpha1.PluginStateReady
	o := old.DeepCopy()
	o.Spec.Enabled, o.Status.State = ptr.To(false), v1alpha1.PluginStateFailed
	sameErrors(t, updated(k.Strategy, o, old))
	if o.Generation != 2 || o.Status.State != v1alpha1.PluginStateReady {
		t.Errorf("generation %d, state %s", o.Generation, o.Status.State)
	}
	o = old.DeepCopy()
	o.Spec.Bundle = "other"
	sameErrors(t, updated(k.Strategy, o, old))
	o = old.DeepCopy()
	o.Spec.Bundle = "other"
	o.Status = v1alpha1.PluginStatus{State: "Dancing", Restarts: -1, P99: "soon"}
	sameErrors(t, updated(k.Status, o, old),
		`status.state: Unsupported value: "Dancing": supported values: "Pending", "Starting", "Ready", "Idle", "BackOff", "Failed", "Stopping", "Disabled"`,
		"status.restarts: Invalid value: -1: must be greater than or equal to 0",
		`status.p99: Invalid value: "soon": must be a duration such as 85µs`)
	if o.Spec.Bundle != "classic" {
		t.Error("an update of the status changed the spec")
	}
}

func TestPluginTable(t *testing.T) {
	k := pluginKind()
	o := fitsResources()
	sameCells(t, k, o, "PodFitsResources", "predicate", "<none>", "<none>", "Pending", int64(0), int64(0), "<none>", "<unknown>", "<none>", "<none>", "<none>", "classic", "")
	o.Spec.Weight, o.Spec.Profiles = ptr.To[int64](3), []string{"a", "b"}
	o.Status = v1alpha1.PluginStatus{State: v1alpha1.PluginStateReady, Transport: v1alpha1.PluginTransportWASM, Version: "1.0.0", Digest: "sha256:x", Restarts: 2, Calls: 41, P99: "85µs", Message: "up"}
	sameCells(t, k, o, "PodFitsResources", "predicate", "wasm", "1.0.0", "Ready", int64(2), int64(41), "85µs", "<unknown>", "3", "a,b", "sha256:x", "classic", "up")
	o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PluginConditionAccepted, Status: metav1.ConditionFalse, Message: "no such version"}}
	sameCells(t, k, o, "PodFitsResources", "predicate", "wasm", "1.0.0", "Ready", int64(2), int64(41), "85µs", "<unknown>", "3", "a,b", "sha256:x", "classic",
		"spec not in force: no such version")
	o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PluginConditionConfined, Status: metav1.ConditionFalse, Reason: "WithoutNamespaces,WithoutSeccomp"}}
	sameCells(t, k, o, "PodFitsResources", "predicate", "wasm", "1.0.0", "Ready,WithoutNamespaces,WithoutSeccomp", int64(2), int64(41), "85µs", "<unknown>", "3", "a,b", "sha256:x", "classic", "up")
	if f := k.Fields(o); f["spec.bundle"] != "classic" || f["spec.kind"] != "predicate" || f["status.state"] != "Ready" || len(f) != len(k.FieldNames) {
		t.Errorf("fields %v", f)
	}
}
