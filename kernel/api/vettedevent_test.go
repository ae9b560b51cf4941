package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/admission/review"
)

// otherwise are events that differ from scheduledEvent in one field each, by what
// was done to it: every field that an event has.
func otherwise(t *testing.T) map[string]func(*eventsv1.Event) {
	out := map[string]func(*eventsv1.Event){"nothing": func(*eventsv1.Event) {}}
	var walk func(path string, typ reflect.Type, at func(*eventsv1.Event) reflect.Value)
	walk = func(path string, typ reflect.Type, at func(*eventsv1.Event) reflect.Value) {
		set := func(name string, value any) {
			out[path+"="+name] = func(e *eventsv1.Event) { at(e).Set(reflect.ValueOf(value).Convert(typ)) }
		}
		switch typ {
		case reflect.TypeFor[metav1.MicroTime]():
			set("zero", metav1.MicroTime{})
			set("nanoseconds", metav1.NewMicroTime(time.Unix(1700000001, 123456789)))
			return
		case reflect.TypeFor[metav1.Time]():
			set("time", metav1.Unix(1700000002, 0))
			return
		case reflect.TypeFor[metav1.TypeMeta]():
			return // it is not stored
		}
		switch typ.Kind() {
		case reflect.Struct:
			for i := range typ.NumField() {
				walk(path+"."+typ.Field(i).Name, typ.Field(i).Type, func(e *eventsv1.Event) reflect.Value { return at(e).Field(i) })
			}
		case reflect.Pointer:
			out[path+"=new"] = func(e *eventsv1.Event) { at(e).Set(reflect.New(typ.Elem())) }
			walk(path, typ.Elem(), func(e *eventsv1.Event) reflect.Value {
				if at(e).IsNil() {
					at(e).Set(reflect.New(typ.Elem()))
				}
				return at(e).Elem()
			})
		case reflect.String:
			for name, value := range map[string]string{"": "", "other": "other", "wrong": "Not Right/", "1024 bytes": strings.Repeat("x", 1024), "1025 bytes": strings.Repeat("x", 1025)} {
				set(name, value)
			}
		case reflect.Int32, reflect.Int64:
			set("1", 1)
		case reflect.Map:
			set("empty", reflect.MakeMap(typ).Interface())
			set("one", map[string]string{"a": "b"})
		case reflect.Slice:
			set("empty", reflect.MakeSlice(typ, 0, 0).Interface())
			set("one", reflect.MakeSlice(typ, 1, 1).Interface())
		default:
			t.Fatalf("%s is a %s", path, typ)
		}
	}
	walk("", reflect.TypeFor[eventsv1.Event](), func(e *eventsv1.Event) reflect.Value { return reflect.ValueOf(e).Elem() })
	return out
}

// An event that is written behind one that is like it, or nearly, becomes what it
// becomes by itself, or is refused as it is by itself.
func TestEventsBehindOneThatWasVetted(t *testing.T) {
	s := start(t, t.TempDir())
	viewer := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1()
	// stored is what was stored of an event but for what is drawn; or how it was refused.
	stored := func(e *eventsv1.Event, err error) (any, string) {
		if err != nil {
			return nil, strings.ReplaceAll(err.Error(), e.Name, "NAME")
		}
		got, err := viewer.Events(e.Namespace).Get(t.Context(), e.Name, metav1.GetOptions{})
		if err != nil {
			t.Errorf("%s/%s: %v", e.Namespace, e.Name, err)
			return nil, ""
		}
		if err := viewer.Events(e.Namespace).Delete(t.Context(), e.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(got.UID) != 36 || time.Since(got.CreationTimestamp.Time) > time.Hour || len(got.ManagedFields) != 1 || got.ManagedFields[0].Time == nil {
			t.Errorf("%+v", got.ObjectMeta)
		}
		got.Name, got.UID, got.ResourceVersion, got.CreationTimestamp, got.ManagedFields[0].Time = "", "", "", metav1.Time{}, nil
		return got, ""
	}
	n := 0
	cases := otherwise(t)
	for name, change := range cases {
		alone, behind := scheduledEvent("alone"), scheduledEvent("behind")
		change(alone)
		change(behind)
		want, wrong := stored(alone, s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{alone})[0])
		n++
		first, last := scheduledEvent(fmt.Sprintf("first-%d", n)), scheduledEvent(fmt.Sprintf("last-%d", n))
		failures := s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{first, behind, last})
		if failures[0] != nil || failures[2] != nil {
			t.Fatal(name, failures)
		}
		got, refused := stored(behind, failures[1])
		if refused != wrong || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v %s\nalone\n%+v %s", name, got, refused, want, wrong)
		}
		a, _ := stored(first, nil)
		if b, _ := stored(last, nil); !reflect.DeepEqual(a, b) {
			t.Errorf("behind %s:\n%+v\nbefore it\n%+v", name, b, a)
		}
	}
	if len(cases) < 150 {
		t.Errorf("%d cases", len(cases))
	}
}

// Events of one batch are each written where they belong, and refused by themselves.
func TestEventsOfABatch(t *testing.T) {
	s := start(t, t.TempDir())
	viewer := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1()
	watch, err := viewer.Events("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	var batch []*eventsv1.Event
	add := func(name, namespace, note string) {
		e := scheduledEvent(name)
		e.Namespace, e.Regarding.Namespace, e.Note = namespace, namespace, note
		batch = append(batch, e)
	}
	add("a", "default", "one")
	add("b", "default", "two")
	add("a", "kube-system", "three")
	add("b", "default", "again")
	add("a", "missing", "nowhere")
	add("c", "default", "four")
	add("Wrong", "default", "a name")
	add("d", "default", "five")
	failures := s.CreateEvents(t.Context(), schedulerUser, batch)
	for i, want := range []func(error) bool{3: apierrors.IsAlreadyExists, 4: apierrors.IsNotFound, 6: apierrors.IsInvalid, 7: nil} {
		if want == nil && failures[i] != nil || want != nil && !want(failures[i]) {
			t.Errorf("%d: %v", i, failures[i])
		}
	}
	uids := map[string]bool{}
	for _, want := range []string{"default/a one", "default/b two", "kube-system/a three", "default/c four", "default/d five"} {
		next := <-watch.ResultChan()
		e, ok := next.Object.(*corev1.Event)
		if !ok {
			t.Fatalf("%+v", next)
		}
		read, err := viewer.Events(e.Namespace).Get(t.Context(), e.Name, metav1.GetOptions{})
		if err != nil || !reflect.DeepEqual(read, e) {
			t.Errorf("watched\n%+v\nread\n%+v %v", e, read, err)
		}
		if got := e.Namespace + "/" + e.Name + " " + e.Message; got != want || uids[string(e.UID)] || e.Name+e.Namespace == "" {
			t.Errorf("%s, want %s; UID %s", got, want, e.UID)
		}
		uids[string(e.UID)] = true
	}
}

// auditor is an admission plugin that reviews events and refuses one.
type auditor struct {
	mu       sync.Mutex
	reviewed []string
}

func (a *auditor) Name() string         { return "auditor" }
func (a *auditor) Mutates() bool        { return false }
func (a *auditor) IgnoresFailure() bool { return false }
func (a *auditor) Matches(_, group, _, resource, _ string) bool {
	return group == eventsv1.GroupName && resource == "events"
}

func (a *auditor) Review(_ context.Context, request []byte) ([]byte, error) {
	var r admissionv1.AdmissionRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reviewed = append(a.reviewed, r.Name)
	return fmt.Appendf(nil, `{"allowed":%t}`, r.Name != "b2"), nil
}

// reviewers are the plugins that review, which may change.
type reviewers struct {
	atomic.Pointer[[]review.Plugin]
}

func (r *reviewers) Reviews() ([]review.Plugin, bool) { return *r.Load(), true }
func (r *reviewers) Reviewing() <-chan struct{}       { return nil }

// Where a plugin reviews events, each of a batch is reviewed, from when it is there.
func TestEventsAreReviewed(t *testing.T) {
	var plugins reviewers
	plugins.Store(&[]review.Plugin{})
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
		c.Admission = &plugins
	})
	create := func(names ...string) []error {
		var batch []*eventsv1.Event
		for _, name := range names {
			batch = append(batch, scheduledEvent(name))
		}
		return s.CreateEvents(t.Context(), schedulerUser, batch)
	}
	if err := errors.Join(create("a1", "b1", "c1")...); err != nil {
		t.Fatal(err)
	}
	a := &auditor{}
	plugins.Store(&[]review.Plugin{a})
	failures := create("a2", "b2", "c2")
	if failures[0] != nil || !apierrors.IsForbidden(failures[1]) || failures[2] != nil {
		t.Error(failures)
	}
	if !slices.Equal(a.reviewed, []string{"a2", "b2", "c2"}) {
		t.Errorf("%q were reviewed", a.reviewed)
	}
}
