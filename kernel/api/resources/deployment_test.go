package resources

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func nginxTemplate() v1.PodTemplateSpec {
	return v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "nginx"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "nginx:1"}, {Name: "b", Image: "sidecar"}}},
	}
}

func defaulting(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func nginxDeployment(t *testing.T) *appsv1.Deployment {
	o := &appsv1.Deployment{ObjectMeta: objectMeta("nginx"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}, Template: nginxTemplate(),
	}}
	defaulting(t).Default(o)
	return o
}

// D-7 and DEP-6, DEP-10.
func TestDeploymentDefaults(t *testing.T) {
	s := nginxDeployment(t).Spec
	if *s.Replicas != 1 || *s.RevisionHistoryLimit != 10 || *s.ProgressDeadlineSeconds != 600 || s.MinReadySeconds != 0 || s.Paused {
		t.Errorf("defaults: replicas %d history %d deadline %d minReady %d paused %v", *s.Replicas, *s.RevisionHistoryLimit, *s.ProgressDeadlineSeconds, s.MinReadySeconds, s.Paused)
	}
	if s.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || s.Strategy.RollingUpdate.MaxSurge.String() != "25%" || s.Strategy.RollingUpdate.MaxUnavailable.String() != "25%" {
		t.Errorf("strategy %+v", s.Strategy)
	}
	if s.Template.Spec.RestartPolicy != v1.RestartPolicyAlways || s.Template.Spec.Containers[0].ImagePullPolicy != v1.PullIfNotPresent {
		t.Errorf("the template has no pod defaults: %+v", s.Template.Spec)
	}
	recreate := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}}
	defaulting(t).Default(recreate)
	if recreate.Spec.Strategy.RollingUpdate != nil {
		t.Error("Recreate got a rolling update")
	}
}

// DEP-1, DEP-3, POD-8: the template is selected, something may move in a rolling
// update, and pods restart always.
func TestDeploymentValidation(t *testing.T) {
	k := deploymentKind()
	tests := []struct {
		name   string
		change func(*appsv1.Deployment)
		want   []string
	}{
		{"good", func(*appsv1.Deployment) {}, nil},
		{"replicas", func(o *appsv1.Deployment) { o.Spec.Replicas = ptr.To[int32](-1) }, []string{"spec.replicas: Invalid value: -1: must be greater than or equal to 0"}},
		{"no selector", func(o *appsv1.Deployment) { o.Spec.Selector = nil }, []string{"spec.selector: Required value", "spec.template.metadata.labels: Invalid value: {\"app\":\"nginx\"}: `selector` does not match template `labels`"}},
		{"empty selector", func(o *appsv1.Deployment) { o.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Invalid value: {}: empty selector is invalid for deployment"}},
		{"labels", func(o *appsv1.Deployment) { o.Spec.Template.Labels = map[string]string{"app": "x"} }, []string{"spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`"}},
		{"restart policy", func(o *appsv1.Deployment) { o.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever }, []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{"deadline", func(o *appsv1.Deployment) { o.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) }, []string{"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"}},
		{"both zero", func(o *appsv1.Deployment) {
			o.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromString("0%"))}
		}, []string{"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"}},
		{"too much", func(o *appsv1.Deployment) {
			o.Spec.Strategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("101%"))
		}, []string{`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{"not a percentage", func(o *appsv1.Deployment) {
			o.Spec.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromString("many"))
		}, []string{`spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`}},
		{"recreate", func(o *appsv1.Deployment) { o.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }, []string{"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
		// DEP-10
		{"progress deadline", func(o *appsv1.Deployment) { o.Spec.MinReadySeconds = 600 }, []string{"spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"}},
		{"history", func(o *appsv1.Deployment) { o.Spec.RevisionHistoryLimit = ptr.To[int32](-1) }, []string{"spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := nginxDeployment(t)
			tt.change(o)
			sameErrors(t, created(k, o), tt.want...)
		})
	}
}

// DEP-1: the selector does not change.
func TestDeploymentUpdate(t *testing.T) {
	k := deploymentKind()
	old := nginxDeployment(t)
	old.Generation = 3
	old.Status.Replicas = 7
	o := old.DeepCopy()
	o.Status.Replicas = 0
	sameErrors(t, updated(k.Strategy, o, old))
	if o.Status.Replicas != 7 || o.Generation != 3 {
		t.Errorf("an update without change gives status.replicas %d and generation %d", o.Status.Replicas, o.Generation)
	}
	o.Annotations = map[string]string{"kubernetes.io/change-cause": "x"}
	updated(k.Strategy, o, old)
	if o.Generation != 4 {
		t.Errorf("a new annotation gives generation %d, want 4", o.Generation)
	}
	o = old.DeepCopy()
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}}
	o.Spec.Template.Labels["tier"] = "x"
	sameErrors(t, updated(k.Strategy, o, old), `spec.selector: Invalid value: {"matchLabels":{"tier":"x"}}: field is immutable`)
}

func TestDeploymentStatus(t *testing.T) {
	k := deploymentKind()
	old := nginxDeployment(t)
	old.Status.CollisionCount = ptr.To[int32](2)
	o := old.DeepCopy()
	o.Spec.Replicas = ptr.To[int32](9)
	o.Labels = map[string]string{"a": "b"}
	o.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 2, AvailableReplicas: 3, UpdatedReplicas: -1, CollisionCount: ptr.To[int32](1)}
	sameErrors(t, updated(k.Status, o, old),
		"status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
		"status.collisionCount: Invalid value: 1: cannot be decremented")
	if *o.Spec.Replicas != 1 || o.Labels != nil {
		t.Error("an update of status changed the spec or the labels")
	}
}

func TestDeploymentTable(t *testing.T) {
	k := deploymentKind()
	o := nginxDeployment(t)
	o.Spec.Replicas = ptr.To[int32](3)
	o.Status = appsv1.DeploymentStatus{Replicas: 4, ReadyReplicas: 2, UpdatedReplicas: 3, AvailableReplicas: 1}
	sameCells(t, k, o, "nginx", "2/3", int64(3), int64(1), "<unknown>", "a,b", "nginx:1,sidecar", "app=nginx")
	scaleOf(t, k, o, 3, "app=nginx")
}

func TestWorkloadNameWarning(t *testing.T) {
	for _, k := range []Kind{deploymentKind(), replicaSetKind(), replicationControllerKind()} {
		obj := k.New()
		obj.(metav1.Object).SetName("a.b")
		if w := k.Strategy.WarningsOnCreate(context.Background(), obj); len(w) != 1 {
			t.Errorf("%s: warnings %q", k.Resource, w)
		}
		obj.(metav1.Object).SetName("ab")
		if w := k.Strategy.WarningsOnCreate(context.Background(), obj); len(w) != 0 {
			t.Errorf("%s: warnings %q", k.Resource, w)
		}
	}
}

// RS-1, RS-4.
func TestReplicaSet(t *testing.T) {
	k := replicaSetKind()
	o := &appsv1.ReplicaSet{ObjectMeta: objectMeta("rs"), Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}, Template: nginxTemplate(),
	}}
	defaulting(t).Default(o)
	o.Status.Replicas = 5
	sameErrors(t, created(k, o))
	if *o.Spec.Replicas != 1 || o.Generation != 1 || o.Status.Replicas != 0 {
		t.Errorf("created with replicas %d generation %d status %+v", *o.Spec.Replicas, o.Generation, o.Status)
	}
	// POD-8: a replica set's pods restart always.
	never := o.DeepCopy()
	never.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	sameErrors(t, created(k, never), `spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"`)
	scaled := o.DeepCopy()
	scaled.Spec.Replicas = ptr.To[int32](2)
	sameErrors(t, updated(k.Strategy, scaled, o))
	if scaled.Generation != 2 {
		t.Errorf("scaling gives generation %d, want 2", scaled.Generation)
	}
	other := o.DeepCopy()
	other.Spec.Selector.MatchLabels = map[string]string{"app": "x"}
	other.Spec.Template.Labels = map[string]string{"app": "x"}
	sameErrors(t, updated(k.Strategy, other, o), `spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable`)
	status := o.DeepCopy()
	status.Status = appsv1.ReplicaSetStatus{Replicas: 1, FullyLabeledReplicas: 2}
	sameErrors(t, updated(k.Status, status, o), "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas")
	o.Status = appsv1.ReplicaSetStatus{Replicas: 2, ReadyReplicas: 1}
	sameCells(t, k, o, "rs", int64(1), int64(2), int64(1), "<unknown>", "a,b", "nginx:1,sidecar", "app=nginx")
	if len(k.FieldNames) > 0 || k.Fields != nil {
		t.Errorf("it is selected by %q; apps/v1 of kube-apiserver has no fields for it but the name and namespace", k.FieldNames)
	}
	scaleOf(t, k, o, 1, "app=nginx")
}

// OBJ-17, WL-3: a replication controller's selector is a map, and is its
// template's labels where it is not given.
func TestReplicationController(t *testing.T) {
	k := replicationControllerKind()
	tmpl := nginxTemplate()
	o := &v1.ReplicationController{ObjectMeta: objectMeta("rc"), Spec: v1.ReplicationControllerSpec{Template: &tmpl}}
	defaulting(t).Default(o)
	sameErrors(t, created(k, o))
	if *o.Spec.Replicas != 1 || o.Spec.Selector["app"] != "nginx" || o.Labels["app"] != "nginx" {
		t.Errorf("defaults: %d %v %v", *o.Spec.Replicas, o.Spec.Selector, o.Labels)
	}
	o.Spec.Selector["app"] = "other"
	if tmpl.Labels["app"] != "nginx" {
		t.Error("the selector shares the template's map")
	}
	sameErrors(t, created(k, o), "spec.template.metadata.labels: Invalid value: {\"app\":\"nginx\"}: `selector` does not match template `labels`")
	sameErrors(t, created(k, &v1.ReplicationController{ObjectMeta: objectMeta("rc")}),
		"spec.selector: Required value", "spec.replicas: Required value", "spec.template: Required value")
	o.Spec.Selector["app"] = "nginx"
	deadline := o.DeepCopy()
	deadline.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](1)
	sameErrors(t, created(k, deadline), "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported")
	old := o.DeepCopy()
	old.Annotations = map[string]string{"non-convertible.kubernetes.io/spec.selector": "x"}
	changed := old.DeepCopy()
	changed.Spec.Selector = map[string]string{"tier": "x"}
	changed.Spec.Template.Labels["tier"] = "x"
	sameErrors(t, updated(k.Strategy, changed, old), `spec.selector: Invalid value: {"tier":"x"}: cannot update non-convertible selector`)
	status := o.DeepCopy()
	status.Status = v1.ReplicationControllerStatus{ReadyReplicas: -1}
	sameErrors(t, updated(k.Status, status, o), "status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.availableReplicas: Invalid value: 0: cannot be greater than readyReplicas")
	sameCells(t, k, o, "rc", int64(1), int64(0), int64(0), "<unknown>", "a,b", "nginx:1,sidecar", "app=nginx")
	scaleOf(t, k, o, 1, "app=nginx")
}

func TestControllerRevision(t *testing.T) {
	k := controllerRevisionKind()
	rev := func(raw string) *appsv1.ControllerRevision {
		o := &appsv1.ControllerRevision{ObjectMeta: objectMeta("r"), Revision: 3}
		if raw != "" {
			o.Data.Raw = []byte(raw)
		}
		return o
	}
	sameErrors(t, created(k, rev(`{"a":1}`)))
	sameErrors(t, created(k, rev("")), "data: Required value: data is mandatory")
	sameErrors(t, created(k, rev("null")), "data: Required value: data is mandatory")
	sameErrors(t, created(k, rev("[]")), "data: Required value: data must be a valid JSON object")
	sameErrors(t, created(k, rev("{")), `data: Invalid value: "<value omitted>": error parsing data: unexpected end of JSON input`)
	if errs := updated(k.Strategy, rev(`{"a":2}`), rev(`{"a":1}`)); len(errs) != 1 || errs[0].Field != "data" || errs[0].Detail != "field is immutable" {
		t.Errorf("changed data: %v", errs)
	}
	bumped := rev(`{"a":1}`)
	bumped.Revision = 4
	sameErrors(t, updated(k.Strategy, bumped, rev(`{"a":1}`)))
	bumped.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: yes}}
	sameCells(t, k, bumped, "r", "statefulset.apps/web", int64(4), "<unknown>")
	sameCells(t, k, rev("{}"), "r", "<none>", int64(3), "<unknown>")
}
