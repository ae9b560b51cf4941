package statuspatch

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, part, set string) metav1.ManagedFieldsEntry {
	at := metav1.Unix(1_700_000_000, 0)
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: version, Subresource: part, Time: &at, FieldsType: "FieldsV1", FieldsV1: fieldsOf(set)}
}

const (
	update = metav1.ManagedFieldsOperationUpdate
	apply  = metav1.ManagedFieldsOperationApply
	spec   = `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}},"f:nodeName":{}}}`
	status = `{"f:status":{"f:message":{},"f:phase":{}}}`
)

// newManager is the library's, over types that it deduces.
func newManager(t *testing.T) *managedfields.FieldManager {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypes(internal, &corev1.Pod{})
	manager, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), runtime.UnsafeObjectConvertor(scheme), scheme, scheme, podKind, internal, "status", nil)
	if err != nil {
		t.Fatal(err)
	}
	return manager
}

// TestFields: what is known of other managers' entries is the same as what the library makes
// of them, whatever the entries are.
func TestFields(t *testing.T) {
	twice := entry("a", update, "", spec)
	odd := entry("a", update, "", spec)
	odd.APIVersion = "v2"
	unsorted := entry("a", update, "", `{"f:spec":{"f:nodeName":{}},"f:metadata":{"f:labels":{"f:app":{}}}}`)
	untyped := entry("a", update, "", spec)
	untyped.FieldsType = "odd"
	bare := entry("a", update, "", spec)
	bare.FieldsV1 = nil
	later := entry("later", update, "status", status)
	second := metav1.Unix(1_700_000_001, 0)
	later.Time = &second
	timeless := entry("timeless", update, "", spec)
	timeless.Time = nil
	var many []metav1.ManagedFieldsEntry
	for i := range 11 {
		many = append(many, entry(fmt.Sprintf("m%02d", i), update, "", spec))
	}
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		known   bool // the second time
	}{
		"none":                     {nil, false},
		"reset":                    {[]metav1.ManagedFieldsEntry{}, false},
		"a creator's":              {[]metav1.ManagedFieldsEntry{entry("creator", update, "", spec)}, true},
		"an applier's":             {[]metav1.ManagedFieldsEntry{entry("applier", apply, "", spec), entry("creator", update, "", spec)}, true},
		"the writer's own":         {[]metav1.ManagedFieldsEntry{entry("creator", update, "", spec), entry("agent", update, "status", status)}, true},
		"only the writer's":        {[]metav1.ManagedFieldsEntry{entry("agent", update, "status", status)}, true},
		"another writer's":         {[]metav1.ManagedFieldsEntry{entry("creator", update, "", spec), entry("gate", update, "status", status), later}, true},
		"a status applier's":       {[]metav1.ManagedFieldsEntry{entry("gate", apply, "status", status), entry("creator", update, "", spec)}, true},
		"the writer's elsewhere":   {[]metav1.ManagedFieldsEntry{entry("agent", update, "", spec), entry("creator", update, "", spec)}, true},
		"without a time":           {[]metav1.ManagedFieldsEntry{timeless, entry("creator", update, "", spec)}, true},
		"the writer's of metadata": {[]metav1.ManagedFieldsEntry{entry("creator", update, "", spec), entry("agent", update, "status", `{"f:metadata":{"f:annotations":{"f:a":{}}}}`)}, false},
		"of metadata and status":   {[]metav1.ManagedFieldsEntry{entry("agent", update, "status", `{"f:metadata":{"f:annotations":{"f:a":{}}},"f:status":{"f:phase":{}}}`)}, false},
		"twice":                    {[]metav1.ManagedFieldsEntry{twice, twice}, false},
		"of another version":       {[]metav1.ManagedFieldsEntry{odd}, false},
		"unsorted":                 {[]metav1.ManagedFieldsEntry{unsorted}, false},
		"untyped":                  {[]metav1.ManagedFieldsEntry{entry("creator", update, "", spec), untyped}, false},
		"without fields":           {[]metav1.ManagedFieldsEntry{bare}, false},
		"of an empty set":          {[]metav1.ManagedFieldsEntry{entry("a", update, "", `{}`)}, false},
		"unreadable":               {[]metav1.ManagedFieldsEntry{entry("creator", update, "", spec), entry("a", update, "", `{"f:spec"`)}, false},
		"of an unreadable status":  {[]metav1.ManagedFieldsEntry{entry("creator", update, "", spec), entry("a", update, "status", `{"f:status":`)}, false},
		"of an odd operation":      {[]metav1.ManagedFieldsEntry{entry("a", "Odd", "", spec)}, false},
		"many":                     {many, false},
		"ten":                      {many[:10], false},
		"nine":                     {many[:9], true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fields{manager: newManager(t)}
			// The creator's set is known from other pods.
			f.set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "o", ManagedFields: []metav1.ManagedFieldsEntry{entry("creator", update, "", spec)}}},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "o"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, "agent")
			live := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Labels: map[string]string{"app": "a"}}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending, Message: "m"}}
			live.ManagedFields = tc.entries
			for _, now := range []corev1.PodStatus{
				{Phase: corev1.PodRunning, Message: "m"}, {Phase: corev1.PodPending}, {Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}, {},
			} {
				for _, manager := range []string{"agent", "gate", ""} {
					want := live.DeepCopy()
					want.Status = now
					f.manager.UpdateNoErrors(live.DeepCopy(), want, manager)
					for round := range 2 {
						next := live.DeepCopy()
						next.Status = now
						next.ManagedFields = live.ManagedFields
						was := live.DeepCopy()
						f.set(live, next, manager)
						if !reflect.DeepEqual(timeOff(live.ManagedFields), timeOff(was.ManagedFields)) {
							t.Fatalf("the pod before changed: %v", live.ManagedFields)
						}
						if a, b := timeOff(next.ManagedFields), timeOff(want.ManagedFields); !reflect.DeepEqual(a, b) {
							t.Errorf("by %q, round %d:\n%v\nthe library:\n%v", manager, round, a, b)
						}
						for _, e := range next.ManagedFields {
							if e.Time != nil && (e.Time.Nanosecond() != 0 || e.Time.Location() != time.Local) {
								t.Errorf("an entry of %s", e.Time)
							}
						}
					}
				}
			}
			if got := f.setOwn(live, &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, "agent"); got != tc.known {
				t.Errorf("without the whole pod: %t, want %t", got, tc.known)
			}
		})
	}
}

func timeOff(entries []metav1.ManagedFieldsEntry) (out []string) {
	for _, e := range entries {
		set := ""
		if e.FieldsV1 != nil {
			set = e.FieldsV1.GetRawString()
		}
		out = append(out, fmt.Sprintf("%q %s %s %q %s %s", e.Manager, e.Operation, e.APIVersion, e.Subresource, e.FieldsType, set))
	}
	return out
}

// What is remembered is bounded, in number and in size.
func TestFieldsForget(t *testing.T) {
	f := &fields{}
	for i := range 3 * maxKnown {
		set := []metav1.ManagedFieldsEntry{entry("a", update, "", fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:l%d":{}}}}`, i))}
		f.learn(set, []metav1.ManagedFieldsEntry{set[0]})
		if len(f.untouched) > maxKnown {
			t.Fatalf("%d are remembered", len(f.untouched))
		}
	}
	large := []metav1.ManagedFieldsEntry{entry("a", update, "", `{"f:`+string(make([]byte, maxKnownSize))+`":{}}`)}
	before := len(f.untouched)
	f.learn(large, []metav1.ManagedFieldsEntry{large[0]})
	if len(f.untouched) != before {
		t.Error("a large one is remembered")
	}
}
