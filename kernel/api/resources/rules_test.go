package resources

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: "1", UID: "u"}
}

func clusterMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, ResourceVersion: "1", UID: "u"}
}

// sameErrors compares the errors' full words in any order.
func sameErrors(t *testing.T, got field.ErrorList, want ...string) {
	t.Helper()
	var words []string
	for _, err := range got {
		words = append(words, err.Error())
	}
	slices.Sort(words)
	slices.Sort(want)
	if !slices.Equal(words, want) {
		t.Errorf("errors:\n  %s\nwant:\n  %s", strings.Join(words, "\n  "), strings.Join(want, "\n  "))
	}
}

// created runs what a create runs after defaults.
func created(k Kind, obj runtime.Object) field.ErrorList {
	k.Strategy.PrepareForCreate(context.Background(), obj)
	return k.Strategy.Validate(context.Background(), obj)
}

// updated runs what an update runs after defaults; status is for that of the
// status subresource.
func updated(s Strategy, obj, old runtime.Object) field.ErrorList {
	s.PrepareForUpdate(context.Background(), obj, old)
	return s.ValidateUpdate(context.Background(), obj, old)
}

func sameCells(t *testing.T, k Kind, obj runtime.Object, want ...any) {
	t.Helper()
	got, err := k.Row(obj)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(k.Columns) {
		t.Errorf("%d cells in %d columns", len(got), len(k.Columns))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: cells\n  %#v, want\n  %#v", k.Resource, got, want)
	}
}

// otherKinds are the kinds of this package's tables of rules.
func otherKinds() []Kind {
	return []Kind{
		configMapKind(), secretKind(), serviceAccountKind(), limitRangeKind(), resourceQuotaKind(),
		replicationControllerKind(), replicaSetKind(), deploymentKind(), controllerRevisionKind(), leaseKind(),
		priorityClassKind(), podDisruptionBudgetKind(), runtimeClassKind(),
		roleKind(), clusterRoleKind(), roleBindingKind(), clusterRoleBindingKind(), pluginKind(),
	}
}

// The names that kubectl resolves, and whether a PUT creates: as upstream's
// storages say.
func TestKindNames(t *testing.T) {
	want := map[string]string{
		"configmaps": "configmap cm ns", "secrets": "secret - ns", "serviceaccounts": "serviceaccount sa ns",
		"limitranges": "limitrange limits ns create", "resourcequotas": "resourcequota quota ns",
		"replicationcontrollers": "replicationcontroller rc ns all", "replicasets": "replicaset rs ns all",
		"deployments": "deployment deploy ns all", "controllerrevisions": "controllerrevision - ns",
		"leases": "lease - ns create conditional", "priorityclasses": "priorityclass pc",
		"poddisruptionbudgets": "poddisruptionbudget pdb ns conditional", "runtimeclasses": "runtimeclass - create conditional",
		"roles": "role - ns create", "clusterroles": "clusterrole - create", "rolebindings": "rolebinding - ns create",
		"clusterrolebindings": "clusterrolebinding - create", "plugins": "plugin -",
	}
	for _, k := range otherKinds() {
		parts := []string{k.Singular, strings.Join(k.ShortNames, ",")}
		if parts[1] == "" {
			parts[1] = "-"
		}
		if k.Strategy.NamespaceScoped() {
			parts = append(parts, "ns")
		}
		parts = append(parts, k.Categories...)
		if k.Strategy.AllowCreateOnUpdate(context.Background()) {
			parts = append(parts, "create")
		}
		if !k.Strategy.AllowUnconditionalUpdate(context.Background()) {
			parts = append(parts, "conditional")
		}
		if got := strings.Join(parts, " "); got != want[k.Resource] {
			t.Errorf("%s: %q, want %q", k.Resource, got, want[k.Resource])
		}
		delete(want, k.Resource)
		if gvks, _, err := k.Strategy.ObjectKinds(k.New()); err != nil || gvks[0] != k.GVK {
			t.Errorf("%s: kinds %v, %v; want %s", k.Resource, gvks, err, k.GVK)
		}
		if _, _, err := k.Strategy.ObjectKinds(&metav1.Status{}); err == nil {
			t.Errorf("%s: takes a Status for its own", k.Resource)
		}
		if list := reflect.TypeOf(k.NewList()).Elem().Name(); list != k.GVK.Kind+"List" {
			t.Errorf("%s: list is %s", k.Resource, list)
		}
	}
	for resource := range want {
		t.Errorf("%s: no kind", resource)
	}
}

// An update of the object leaves status alone, one of status the rest, and
// server-side apply owns neither.
func TestResetFields(t *testing.T) {
	for _, k := range otherKinds() {
		if k.Status == nil {
			continue
		}
		for _, c := range []struct {
			strategy Strategy
			want     string
		}{{k.Strategy, ".status"}, {k.Status, ".spec"}} {
			fields := c.strategy.(rest.ResetFieldsStrategy).GetResetFields()
			set := fields[fieldpath.APIVersion(k.GVK.GroupVersion().String())]
			if set == nil || !strings.Contains(set.String(), c.want) {
				t.Errorf("%s: resets %v, want %s", k.Resource, fields, c.want)
			}
		}
	}
}

// Only replication controllers orphan by default.
func TestGarbageCollectionPolicy(t *testing.T) {
	for _, k := range otherKinds() {
		want := rest.DeleteDependents
		if k.Resource == "replicationcontrollers" {
			want = rest.OrphanDependents
		}
		if got := k.Strategy.(rest.GarbageCollectionDeleteStrategy).DefaultGarbageCollectionPolicy(context.Background()); got != want {
			t.Errorf("%s: %s, want %s", k.Resource, got, want)
		}
	}
}

func TestTableColumns(t *testing.T) {
	want := map[string]string{
		"configmaps":             "Name Data Age",
		"secrets":                "Name Type Data Age", // 002 §20
		"serviceaccounts":        "Name Age",
		"limitranges":            "Name Created At",
		"resourcequotas":         "Name Request Limit Age",
		"replicationcontrollers": "Name Desired Current Ready Age (Containers) (Images) (Selector)",
		"replicasets":            "Name Desired Current Ready Age (Containers) (Images) (Selector)",
		"deployments":            "Name Ready Up-to-date Available Age (Containers) (Images) (Selector)", // DEP-14
		"controllerrevisions":    "Name Controller Revision Age",
		"leases":                 "Name Holder Age",
		"priorityclasses":        "Name Value Global-Default Age PreemptionPolicy",
		"poddisruptionbudgets":   "Name Min Available Max Unavailable Allowed Disruptions Age",
		"runtimeclasses":         "Name Handler Age",
		"roles":                  "Name Created At",
		"clusterroles":           "Name Created At",
		"rolebindings":           "Name Role Age (Users) (Groups) (ServiceAccounts)",
		"clusterrolebindings":    "Name Role Age (Users) (Groups) (ServiceAccounts)",
		"plugins":                "Name Kind Transport Version State Restarts Calls P99 Age (Weight) (Profiles) (Digest) (Bundle) (Message)",
	}
	for _, k := range otherKinds() {
		var names []string
		for _, c := range k.Columns {
			// Upstream's Handler has none.
			if c.Description == "" && c.Name != "Handler" {
				t.Errorf("%s: column %s has no description", k.Resource, c.Name)
			}
			if c.Priority > 0 {
				names = append(names, "("+c.Name+")")
			} else {
				names = append(names, c.Name)
			}
		}
		if got := strings.Join(names, " "); got != want[k.Resource] {
			t.Errorf("%s: columns %q, want %q", k.Resource, got, want[k.Resource])
		}
		if cells, err := k.Row(k.New()); err != nil || len(cells) != len(k.Columns) {
			t.Errorf("%s: an empty object gives %d cells for %d columns, %v", k.Resource, len(cells), len(k.Columns), err)
		}
	}
}

// Defaults do not change what has them already, and survive empty objects.
func TestDefaultsAreStable(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, k := range otherKinds() {
		obj := k.New()
		s.Default(obj)
		once := obj.DeepCopyObject()
		s.Default(obj)
		if !reflect.DeepEqual(once, obj) {
			t.Errorf("%s: defaulting twice gives\n%#v, once\n%#v", k.Resource, obj, once)
		}
	}
}

func scaleOf(t *testing.T, k Kind, obj runtime.Object, replicas int32, selector string) {
	t.Helper()
	if got := k.Scale.Replicas(obj); got != replicas {
		t.Errorf("%s: scale shows %d replicas, want %d", k.Resource, got, replicas)
	}
	k.Scale.SetReplicas(obj, replicas+2)
	if got := k.Scale.Replicas(obj); got != replicas+2 {
		t.Errorf("%s: scaled to %d, want %d", k.Resource, got, replicas+2)
	}
	if _, got := k.Scale.Status(obj); got != selector {
		t.Errorf("%s: scale selector %q, want %q", k.Resource, got, selector)
	}
	if got := k.Scale.Replicas(k.New()); got != 0 {
		t.Errorf("%s: an empty object has %d replicas", k.Resource, got)
	}
}

var yes = ptr.To(true)
