package eventratelimit

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestLoad(t *testing.T) {
	const head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"
	for name, tc := range map[string]struct {
		text   string
		faults []string
	}{
		"all":     {head + "limits: [{type: Server, qps: 1, burst: 1, cacheSize: -1}, {type: Namespace, qps: 1, burst: 1}, {type: User, qps: 1, burst: 1, cacheSize: 2}, {type: SourceAndObject, qps: 1, burst: 1}]", nil},
		"nothing": {"", []string{"set admission.eventRateLimit or admission.eventRateLimitFile"}},
		"none":    {head, []string{"limits: Invalid value: null: must not be empty"}},
		"wrong": {head + "limits: [{type: Pod, qps: 0, burst: -1}, {type: User, qps: 1, burst: 1, cacheSize: -1}]", []string{
			`limits[0].type: Unsupported value: "Pod": supported values: "Server", "Namespace", "User", "SourceAndObject"`, "limits[0].burst: Invalid value: -1: must be positive",
			"limits[0].qps: Invalid value: 0: must be positive", "limits[1].cacheSize: Invalid value: -1: must not be negative"}},
		"unknown field":   {head + "limits: [{type: User, qps: 1, burst: 1, size: 1}]", []string{`unknown field "size"`}},
		"another kind":    {"apiVersion: v1\nkind: Pod\nlimits: []", []string{`kind "Pod" in version "v1"`}},
		"another version": {"apiVersion: eventratelimit.admission.k8s.io/v2\nkind: Configuration", []string{"it must be Configuration in eventratelimit.admission.k8s.io/v1alpha1"}},
		"no object":       {"[]", []string{"read the configuration"}},
		"too much":        {head + "limits: [{type: User, qps: 3000000000, burst: 1}]", []string{"read the configuration"}},
	} {
		_, err := Load([]byte(tc.text))
		if (err == nil) != (len(tc.faults) == 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, fault := range tc.faults {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: got %v, want %q", name, err, fault)
			}
		}
	}
}

// event is a request that writes one.
type event struct {
	namespace, user, component, name string
	modern, dryRun                   bool
	kind, resource                   string
}

func (e event) attributes() admission.Attributes {
	about := corev1.ObjectReference{Kind: "Pod", Namespace: e.namespace, Name: e.name}
	gv, object := corev1.SchemeGroupVersion, runtime.Object(&corev1.Event{Source: corev1.EventSource{Component: e.component}, InvolvedObject: about})
	if e.modern { // as the storage has it
		gv, object = eventsv1.SchemeGroupVersion, &corev1.Event{ReportingController: e.component, InvolvedObject: about}
	}
	resource := e.resource
	if resource == "" {
		resource = "events"
	}
	return admission.NewAttributesRecord(object, nil, gv.WithKind("Event"), e.namespace, "e", gv.WithResource(resource), "", admission.Create, &metav1.CreateOptions{}, e.dryRun, &user.DefaultInfo{Name: e.user})
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits []Limit
		events []event
		want   string // of each event: the types of the limits that it reaches
		key    string // of the last refusal
	}{
		{"server", []Limit{{Type: Server, QPS: 1, Burst: 2}}, []event{{namespace: "a"}, {namespace: "b", user: "u"}, {namespace: "c"}}, "- - Server", ""},
		{"both groups", []Limit{{Type: User, QPS: 1, Burst: 1}}, []event{{user: "u", modern: true}, {user: "u"}, {user: "v"}, {user: "v", modern: true}}, "- User - User", "v"},
		{"namespace", []Limit{{Type: Namespace, QPS: 1, Burst: 1}}, []event{{namespace: "a", user: "u"}, {namespace: "b", user: "u"}, {namespace: "a", user: "v"}}, "- - Namespace", "a"},
		{"user", []Limit{{Type: User, QPS: 1, Burst: 1}}, []event{{namespace: "a", user: "u"}, {namespace: "a", user: "v"}, {namespace: "b", user: "u"}}, "- - User", "u"},
		{"source and object", []Limit{{Type: SourceAndObject, QPS: 1, Burst: 1}}, []event{{component: "c", name: "p"}, {component: "c", name: "q"}, {component: "d", name: "p"}, {component: "c", name: "p", modern: true}}, "- - - SourceAndObject", "cPodp"},
		// Parts that are the same when they are joined are not the same key.
		{"joined", []Limit{{Type: SourceAndObject, QPS: 1, Burst: 1}}, []event{{namespace: "ab", name: "c"}, {namespace: "a", name: "bc"}}, "- -", ""},
		// One that another limit refuses is counted.
		{"two", []Limit{{Type: Server, QPS: 1, Burst: 2}, {Type: User, QPS: 1, Burst: 1}}, []event{{user: "u"}, {user: "u"}, {user: "u"}, {user: "v"}}, "- User Server,User Server", ""},
		{"dry run", []Limit{{Type: Server, QPS: 1, Burst: 1}}, []event{{dryRun: true}, {dryRun: true}, {}, {dryRun: true}, {}}, "- - - - Server", ""},
		{"other resources", []Limit{{Type: Server, QPS: 1, Burst: 1}}, []event{{resource: "pods"}, {resource: "pods"}, {}, {resource: "pods"}}, "- - - -", ""},
		// A bucket that fell out starts anew; one that is asked for stays.
		{"cache", []Limit{{Type: User, QPS: 1, Burst: 1, CacheSize: 2}}, []event{{user: "a"}, {user: "b"}, {user: "a"}, {user: "c"}, {user: "a"}, {user: "b"}}, "- - User - User -", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlugin(&Configuration{Limits: tc.limits}, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
			var got []string
			var last error
			for _, e := range tc.events {
				err := p.Validate(t.Context(), e.attributes(), nil)
				var types []string
				for _, l := range tc.limits {
					if err != nil && strings.Contains(err.Error(), "limit reached on type "+string(l.Type)+" for key ") {
						types = append(types, string(l.Type))
					}
				}
				if err == nil {
					types = []string{"-"}
				} else if last = err; !apierrors.IsTooManyRequests(err) {
					t.Errorf("%+v: %v", e, err)
				}
				got = append(got, strings.Join(types, ","))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
			if tc.key != "" && !strings.HasSuffix(last.Error(), "for key "+tc.key) {
				t.Errorf("%v; want the key %q", last, tc.key)
			}
		})
	}
}

// What is used up comes back with time, and no more than the burst.
func TestRate(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	p := newPlugin(&Configuration{Limits: []Limit{{Type: User, QPS: 3, Burst: 10}}}, now)
	for _, tc := range []struct{ at, pass int64 }{{0, 10}, {1, 3}, {2, 3}, {1000, 10}} {
		now.SetTime(time.Unix(1000+tc.at, 0))
		var passed int64
		for range 100 {
			if p.Validate(t.Context(), event{user: "u"}.attributes(), nil) == nil {
				passed++
			}
		}
		if passed != tc.pass {
			t.Errorf("after %d seconds %d passed, want %d", tc.at, passed, tc.pass)
		}
	}
	if err := p.Validate(t.Context(), event{user: "u"}.attributes(), nil); err == nil || err.Error() != "Too many requests: limit reached on type User for key u" {
		t.Errorf("said %v", err)
	}
}

// Requests that come at once have one bucket.
func TestAtOnce(t *testing.T) {
	p := newPlugin(&Configuration{Limits: []Limit{{Type: User, QPS: 1, Burst: 5}}}, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if p.Validate(t.Context(), event{user: "u"}.attributes(), nil) == nil {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 5 {
		t.Errorf("%d passed, want 5", passed.Load())
	}
}

// Who writes a new and long key into each event makes no memory grow, and no refusal
// without end.
func TestHostileKeys(t *testing.T) {
	p := newPlugin(&Configuration{Limits: []Limit{{Type: SourceAndObject, QPS: 1, Burst: 1, CacheSize: 8}}}, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	long := strings.Repeat("x", 1<<20)
	for i := range 100 {
		e := event{name: fmt.Sprint(long, i)}.attributes()
		if err := p.Validate(t.Context(), e, nil); err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(t.Context(), e, nil); err == nil || len(err.Error()) > 2*maxShown {
			t.Fatalf("a refusal of %d bytes", len(fmt.Sprint(err)))
		}
	}
	if n := p.limits[0].buckets.Len(); n != 8 {
		t.Errorf("%d buckets are kept", n)
	}
}

// An event without a user, or without an object, is counted all the same.
func TestNobody(t *testing.T) {
	for _, by := range []LimitType{User, SourceAndObject} {
		p := newPlugin(&Configuration{Limits: []Limit{{Type: by, QPS: 1, Burst: 1}}}, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
		a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", corev1.SchemeGroupVersion.WithResource("events"), "", admission.Create, nil, false, nil)
		if err := p.Validate(t.Context(), a, nil); err != nil {
			t.Errorf("%s: %v", by, err)
		}
		if err := p.Validate(t.Context(), a, nil); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: %v", by, err)
		}
	}
}
