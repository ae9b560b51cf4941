package resources

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantities(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestResourceQuota(t *testing.T) {
	k := resourceQuotaKind()
	tests := []struct {
		name string
		spec v1.ResourceQuotaSpec
		want []string
	}{
		// RQC-3
		{"good", v1.ResourceQuotaSpec{Hard: quantities("pods", "10", "services", "1", "replicationcontrollers", "1", "persistentvolumeclaims", "2", "secrets", "1", "configmaps", "1", "cpu", "1500m", "memory", "1Gi", "resourcequotas", "1", "requests.example.com/gpu", "2", "count/deployments.apps", "3", "hugepages-2Mi", "4Mi")}, nil},
		{"unknown", v1.ResourceQuotaSpec{Hard: quantities("apples", "1")}, []string{
			`spec.hard[apples]: Invalid value: "apples": must be a standard resource type or fully qualified`,
			`spec.hard[apples]: Invalid value: "apples": must be a standard resource for quota`}},
		{"storage", v1.ResourceQuotaSpec{Hard: quantities("storage", "1")}, []string{`spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota`}},
		{"fraction", v1.ResourceQuotaSpec{Hard: quantities("pods", "1500m")}, []string{`spec.hard[pods]: Invalid value: "1500m": must be an integer`}},
		{"negative", v1.ResourceQuotaSpec{Hard: quantities("cpu", "-1")}, []string{`spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"scope of services", v1.ResourceQuotaSpec{Hard: quantities("services", "1"), Scopes: []v1.ResourceQuotaScope{v1.ResourceQuotaScopeTerminating}},
			[]string{`spec.scopes: Invalid value: ["Terminating"]: unsupported scope applied to resource`}},
		{"conflict", v1.ResourceQuotaSpec{Hard: quantities("pods", "1"), Scopes: []v1.ResourceQuotaScope{"BestEffort", "NotBestEffort"}},
			[]string{`spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes`}},
		{"scope", v1.ResourceQuotaSpec{Scopes: []v1.ResourceQuotaScope{"Sundays"}}, []string{`spec.scopes: Invalid value: ["Sundays"]: unsupported scope`}},
		{"selector", v1.ResourceQuotaSpec{ScopeSelector: &v1.ScopeSelector{MatchExpressions: []v1.ScopedResourceSelectorRequirement{
			{ScopeName: "PriorityClass", Operator: "In"}, {ScopeName: "PriorityClass", Operator: "Exists", Values: []string{"x"}}, {ScopeName: "PriorityClass", Operator: "Near"}}}},
			[]string{
				"spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
				"spec.scopeSelector.matchExpressions.values: Invalid value: [\"x\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
				`spec.scopeSelector.matchExpressions.operator: Invalid value: "Near": not a valid selector operator`,
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sameErrors(t, created(k, &v1.ResourceQuota{ObjectMeta: objectMeta("q"), Spec: tt.spec}), tt.want...)
		})
	}
}

func TestResourceQuotaUpdate(t *testing.T) {
	k := resourceQuotaKind()
	old := &v1.ResourceQuota{ObjectMeta: objectMeta("q"), Spec: v1.ResourceQuotaSpec{Hard: quantities("pods", "1"), Scopes: []v1.ResourceQuotaScope{"BestEffort"}}}
	o := old.DeepCopy()
	o.Spec.Scopes = nil
	o.Status.Hard = quantities("pods", "9")
	sameErrors(t, updated(k.Strategy, o, old), `spec.scopes: Invalid value: null: field is immutable`)
	if o.Status.Hard != nil {
		t.Error("an update of the quota set its status")
	}
	o = old.DeepCopy()
	o.ResourceVersion = ""
	o.Spec.Hard = nil
	o.Status.Used = quantities("pods", "-1")
	errs := updated(k.Status, o, old)
	if len(o.Spec.Hard) != 1 {
		t.Error("an update of the status changed the spec")
	}
	sameErrors(t, errs, "resourceVersion: Required value", "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
		`status.used[pods]: Invalid value: "-1": must be greater than or equal to 0`)
}

func TestResourceQuotaTable(t *testing.T) {
	k := resourceQuotaKind()
	o := &v1.ResourceQuota{ObjectMeta: objectMeta("q"), Status: v1.ResourceQuotaStatus{
		Hard: quantities("pods", "4", "limits.cpu", "2", "cpu", "1"), Used: quantities("pods", "1", "limits.cpu", "500m"),
	}}
	sameCells(t, k, o, "q", "cpu: 0/1, pods: 1/4", "limits.cpu: 500m/2", "<unknown>")
	o.Spec.Hard = quantities("cpu", "3", "limits.cpu", "2")
	if w := k.Strategy.WarningsOnCreate(context.Background(), o); len(w) != 1 || w[0] != "ResourceQuota cpu (3) should be less than limits.cpu (2)" {
		t.Errorf("warnings %q", w)
	}
}

func TestLimitRangeDefaults(t *testing.T) {
	o := &v1.LimitRange{Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{
		{Type: v1.LimitTypeContainer, Max: quantities("cpu", "2"), Min: quantities("cpu", "1", "memory", "1Mi")},
		{Type: v1.LimitTypePod, Max: quantities("cpu", "0.0001")},
	}}}
	setLimitRangeDefaults(o)
	c, p := o.Spec.Limits[0], o.Spec.Limits[1]
	if len(c.Default) != 1 || c.Default.Cpu().String() != "2" || c.DefaultRequest.Cpu().String() != "2" || c.DefaultRequest.Memory().String() != "1Mi" {
		t.Errorf("container: default %v request %v", c.Default, c.DefaultRequest)
	}
	if p.Default != nil || p.Max.Cpu().String() != "1m" {
		t.Errorf("pod: default %v max %v", p.Default, p.Max)
	}
}

func TestLimitRange(t *testing.T) {
	k := limitRangeKind()
	tests := []struct {
		name  string
		items []v1.LimitRangeItem
		want  []string
	}{
		{"good", []v1.LimitRangeItem{{Type: v1.LimitTypeContainer, Max: quantities("cpu", "2"), Min: quantities("cpu", "1"), Default: quantities("cpu", "2"), DefaultRequest: quantities("cpu", "1"), MaxLimitRequestRatio: quantities("cpu", "2")}}, nil},
		{"type", []v1.LimitRangeItem{{Type: "Node"}}, []string{`spec.limits[0].type: Invalid value: "Node": must be a standard limit type or fully qualified`}},
		{"twice", []v1.LimitRangeItem{{Type: v1.LimitTypePod}, {Type: v1.LimitTypePod}}, []string{`spec.limits[1].type: Duplicate value: "Pod"`}},
		{"resource", []v1.LimitRangeItem{{Type: v1.LimitTypeContainer, Max: quantities("storage", "1")}}, []string{`spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers`}},
		{"pod", []v1.LimitRangeItem{{Type: v1.LimitTypePod, Default: quantities("cpu", "1")}}, []string{"spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"}},
		{"claim", []v1.LimitRangeItem{{Type: v1.LimitTypePersistentVolumeClaim}}, []string{"spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"}},
		{"order", []v1.LimitRangeItem{{Type: v1.LimitTypeContainer, Min: quantities("cpu", "3"), Max: quantities("cpu", "2")}}, []string{`spec.limits[0].min[cpu]: Invalid value: "3": min value 3 is greater than max value 2`}},
		{"defaults", []v1.LimitRangeItem{{Type: v1.LimitTypeContainer, Min: quantities("cpu", "2"), Max: quantities("cpu", "4"), Default: quantities("cpu", "1"), DefaultRequest: quantities("cpu", "5")}}, []string{
			`spec.limits[0].defaultRequest[cpu]: Invalid value: "5": default request value 5 is greater than max value 4`,
			`spec.limits[0].defaultRequest[cpu]: Invalid value: "5": default request value 5 is greater than default limit value 1`,
			`spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1`,
		}},
		{"ratio", []v1.LimitRangeItem{{Type: v1.LimitTypeContainer, Min: quantities("cpu", "1"), Max: quantities("cpu", "2"), MaxLimitRequestRatio: quantities("cpu", "3", "memory", "500m")}}, []string{
			`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`,
			`spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "500m": ratio 500m is less than 1`,
		}},
		{"gpu", []v1.LimitRangeItem{{Type: v1.LimitTypeContainer, Default: quantities("example.com/gpu", "2"), DefaultRequest: quantities("example.com/gpu", "1")}}, []string{
			`spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sameErrors(t, created(k, &v1.LimitRange{ObjectMeta: objectMeta("l"), Spec: v1.LimitRangeSpec{Limits: tt.items}}), tt.want...)
		})
	}
	nameless := &v1.LimitRange{}
	k.Strategy.PrepareForCreate(context.Background(), nameless)
	if nameless.Name == "" {
		t.Error("a limit range without a name gets none")
	}
}
