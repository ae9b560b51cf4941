package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/bus"
)

// What a watch begins with, by its resource version and sendInitialEvents. Two pods are there, a at 2 and b at 3; c
// comes at 5, after the watch has begun.
func TestWhereAWatchBegins(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		version string
		initial *bool
		want    string
	}{
		{"", nil, "ADDED a@2, ADDED b@3, ADDED c@5"},
		{"0", nil, "ADDED a@2, ADDED b@3, ADDED c@5"},
		{"1", nil, "ADDED a@2, ADDED b@3, ADDED c@5"},
		{"2", nil, "ADDED b@3, ADDED c@5"},
		{"4", nil, "ADDED c@5"},
		{"5", nil, ""},
		{"", &yes, "ADDED a@2, ADDED b@3, BOOKMARK end@4, ADDED c@5"},
		{"0", &yes, "ADDED a@2, ADDED b@3, BOOKMARK end@4, ADDED c@5"},
		{"3", &yes, "ADDED a@2, ADDED b@3, BOOKMARK end@4, ADDED c@5"},
		{"9", &yes, "ERROR 504 Timeout: Too large resource version: 9, current: 4, after 1 s, ResourceVersionTooLarge: Too large resource version"},
		{"", &no, "ADDED c@5"},
		{"0", &no, "ADDED c@5"},
		{"2", &no, "ADDED b@3, ADDED c@5"},
	} {
		name := fmt.Sprintf("version %q", tt.version)
		if tt.initial != nil {
			name += fmt.Sprintf(" with initial events %t", *tt.initial)
		}
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{})
			s, _ := podStorage(t, f)
			create := func(name string) {
				t.Helper()
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
				if err := s.Create(t.Context(), "/pods/ns/"+name, pod, nil, 0); err != nil {
					t.Fatal(err)
				}
			}
			create("a")
			create("b")
			f.increaseRV(t.Context(), t)
			p := storage.Everything
			p.AllowWatchBookmarks = true
			w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: tt.version, SendInitialEvents: tt.initial, Predicate: p, Recursive: true})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			create("c")
			var got []string
			for range strings.Count(tt.want, "@") + strings.Count(tt.want, "ERROR") {
				got = append(got, told(next(t, w)))
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
			if n := len(w.ResultChan()); n != 0 {
				t.Errorf("%d events more", n)
			}
		})
	}
}

// told puts an event into words.
func told(e watch.Event) string {
	switch o := plain(e.Object).(type) {
	case *corev1.Pod:
		name := o.Name
		if e.Type == watch.Bookmark && o.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			name = "end"
		}
		return fmt.Sprintf("%s %s@%s", e.Type, name, o.ResourceVersion)
	case *metav1.Status:
		out := fmt.Sprintf("%s %d %s", e.Type, o.Code, o.Message)
		if o.Details != nil {
			out += fmt.Sprintf(", after %d s", o.Details.RetryAfterSeconds)
			for _, c := range o.Details.Causes {
				out += fmt.Sprintf(", %s: %s", c.Type, c.Message)
			}
		}
		return out
	}
	return fmt.Sprintf("%s %T", e.Type, e.Object)
}

// A watch whose reader sleeps gets, when it wakes, what still can be replayed: everything in order, or after a
// compaction what it had been given before and then the error that makes clients list again.
func TestSleepingReader(t *testing.T) {
	const pods = 300
	for _, compact := range []bool{false, true} {
		t.Run(fmt.Sprintf("compacted %t", compact), func(t *testing.T) {
			f := newFixtureOn(t, bus.Config{Recent: 8, Buffer: 4}, Options{})
			s, _ := podStorage(t, f)
			w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything, Recursive: true})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			createPods(t, s, pods)
			if compact {
				f.compact(t.Context(), t, fmt.Sprint(pods))
			}
			var versions []uint64
			for range pods {
				e := next(t, w)
				if e.Type == watch.Error {
					status := e.Object.(*metav1.Status)
					if !compact || status.Code != 410 || status.Message != fmt.Sprintf("too old resource version: %d (%d)", len(versions)+1, pods) {
						t.Errorf("after %d events: %+v", len(versions), status)
					}
					if _, open := <-w.ResultChan(); open {
						t.Error("the watch goes on after its error")
					}
					break
				}
				version, err := s.versioner.ObjectResourceVersion(plain(e.Object))
				if err != nil {
					t.Fatal(err)
				}
				versions = append(versions, version)
			}
			if (len(versions) == pods) == compact {
				t.Errorf("%d events", len(versions))
			}
			if i := slices.IndexFunc(versions, func(v uint64) bool { return v != uint64(slices.Index(versions, v))+2 }); i >= 0 {
				t.Errorf("event %d has version %d", i, versions[i])
			}
		})
	}
}

// Clients are told when to ask again for what is not there yet, and why.
func TestTooLargeResourceVersion(t *testing.T) {
	f := newFixture(t, Options{})
	s, _ := podStorage(t, f)
	errs := map[string]error{"get": s.Get(t.Context(), "/pods/ns/p", storage.GetOptions{ResourceVersion: "9"}, &corev1.Pod{})}
	for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchNotOlderThan, metav1.ResourceVersionMatchExact} {
		errs["list "+string(match)] = s.GetList(t.Context(), "/pods", storage.ListOptions{
			ResourceVersion: "9", ResourceVersionMatch: match, Predicate: storage.Everything, Recursive: true,
		}, &corev1.PodList{})
	}
	for name, err := range errs {
		const want = "ERROR 504 Timeout: Too large resource version: 9, current: 1, after 1 s, ResourceVersionTooLarge: Too large resource version"
		if !storage.IsTooLargeResourceVersion(err) || told(errorEvent(err)) != want {
			t.Errorf("%s: %v: %s", name, err, told(errorEvent(err)))
		}
	}
}
