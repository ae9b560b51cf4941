package review

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes/scheme"
)

// fake answers what it is told and keeps what it was asked.
type fake struct {
	mutates, ignores bool
	answer           string
	err              error
	asked            []admissionv1.AdmissionRequest
}

func (f *fake) Name() string         { return "fake" }
func (f *fake) Mutates() bool        { return f.mutates }
func (f *fake) IgnoresFailure() bool { return f.ignores }
func (f *fake) Matches(operation, group, version, resource, subresource string) bool {
	return operation == "CREATE" && subresource == ""
}

func (f *fake) Review(_ context.Context, request []byte) ([]byte, error) {
	var r admissionv1.AdmissionRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, err
	}
	f.asked = append(f.asked, r)
	return []byte(f.answer), f.err
}

// plugins is a source that knows its plugins.
type plugins []Plugin

func (p plugins) Reviews() ([]Plugin, bool)  { return p, true }
func (p plugins) Reviewing() <-chan struct{} { return nil }

// warnings records what users are told.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func patched(operations string) string {
	return `{"allowed":true,"patchType":"JSONPatch","patch":"` + base64.StdEncoding.EncodeToString([]byte(operations)) + `"}`
}

func TestReview(t *testing.T) {
	tests := map[string]struct {
		plugin    *fake
		validate  bool   // otherwise the mutating phase
		want      string // of the error
		code      int32
		wantImage string
		warned    string
		notAsked  bool
		clean     bool
	}{
		"allows":                   {plugin: &fake{answer: `{"allowed":true}`}, validate: true},
		"is of the other phase":    {plugin: &fake{answer: `{"allowed":false}`}, notAsked: true},
		"refuses":                  {plugin: &fake{answer: `{"allowed":false,"status":{"message":"no"}}`}, validate: true, want: `admission plugin "fake" denied the request: no`, code: 403},
		"refuses with a code":      {plugin: &fake{answer: `{"allowed":false,"status":{"code":422,"reason":"Invalid","message":"no"}}`}, validate: true, want: `admission plugin "fake" denied the request: no`, code: 422},
		"refuses without a word":   {plugin: &fake{answer: `{"allowed":false}`}, validate: true, want: `admission plugin "fake" denied the request without explanation`, code: 403},
		"refuses with a wild code": {plugin: &fake{answer: `{"allowed":false,"status":{"code":200,"message":"no"}}`}, validate: true, want: `denied the request: no`, code: 403},
		"refuses in colours": {plugin: &fake{answer: `{"allowed":false,"status":{"code":422,"reason":"Inv\u001b[31malid","message":"a\u001b]0;t\u0007b\nsecond\u202e line","details":{"name":"n\u0000","causes":[{"message":"c\u001b[2J"}]}}}`}, validate: true,
			want: "denied the request: a\ufffd]0;t\ufffdb\nsecond\ufffd line", code: 422, clean: true},
		"warns in colours":           {plugin: &fake{answer: `{"allowed":true,"warnings":["mi\u001b[31mnd"," \u000b "]}`}, validate: true, warned: "mi\ufffd[31mnd"},
		"warns":                      {plugin: &fake{answer: `{"allowed":true,"warnings":["mind"]}`}, validate: true, warned: "mind"},
		"changes":                    {plugin: &fake{mutates: true, answer: patched(`[{"op":"replace","path":"/spec/containers/0/image","value":"b"}]`)}, wantImage: "b"},
		"changes nothing":            {plugin: &fake{mutates: true, answer: patched(`[{"op":"replace","path":"/spec/containers/0/image","value":"a"}]`)}, wantImage: "a"},
		"may not change":             {plugin: &fake{answer: patched(`[]`)}, validate: true, want: `Internal error occurred: failed calling admission plugin "fake": it may refuse and not change, and sent a patch`, code: 500},
		"patches what is not there":  {plugin: &fake{mutates: true, answer: patched(`[{"op":"remove","path":"/spec/nothing"}]`)}, want: `failed calling admission plugin "fake": its patch: `, code: 500, wantImage: "a"},
		"patches into something new": {plugin: &fake{mutates: true, answer: patched(`[{"op":"add","path":"/spec/flavour","value":1}]`)}, want: `the patched object: `, code: 500, wantImage: "a"},
		"points too deep":            {plugin: &fake{mutates: true, answer: patched(`[{"op":"test","path":"` + strings.Repeat("/a", 257) + `","value":1}]`)}, want: `its patch: the JSON patch points too deep: `, code: 500},
		"nests too deep":             {plugin: &fake{mutates: true, answer: patched(`[{"op":"add","path":"/spec/x","value":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}]`)}, want: `its patch: the patch nests too deep: `, code: 500},
		"sends what is no patch":     {plugin: &fake{mutates: true, answer: patched(`{}`)}, want: `its patch: `, code: 500},
		"does not answer":            {plugin: &fake{err: errors.New("no answer in time")}, validate: true, want: `Internal error occurred: failed calling admission plugin "fake": no answer in time`, code: 500},
		"does not answer, ignored":   {plugin: &fake{ignores: true, err: errors.New("no answer in time")}, validate: true},
		"answers nonsense":           {plugin: &fake{answer: `{`}, validate: true, want: `failed calling admission plugin "fake": its answer: `, code: 500},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "a"}}}}
			a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "ann", Groups: []string{"g"}})
			r := New(plugins{test.plugin}, nil)
			var told warnings
			ctx := warning.WithWarningRecorder(t.Context(), &told)
			o := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
			err := r.Admit(ctx, a, o)
			if test.validate {
				err = errors.Join(err, r.Validate(ctx, a, o))
			}
			var status interface{ Status() metav1.Status }
			switch {
			case test.want == "" && err != nil:
				t.Errorf("error %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			case test.want != "" && (!errors.As(err, &status) || status.Status().Code != test.code):
				t.Errorf("error %#v, want code %d", err, test.code)
			}
			if test.clean && errors.As(err, &status) {
				told, err := json.Marshal(status.Status())
				if err != nil || strings.Contains(string(told), `\u001b`) || strings.Contains(string(told), `\u0000`) || strings.Contains(string(told), `\u202e`) {
					t.Errorf("status %s, %v", told, err)
				}
			}
			if test.wantImage != "" && pod.Spec.Containers[0].Image != test.wantImage {
				t.Errorf("image %q, want %q", pod.Spec.Containers[0].Image, test.wantImage)
			}
			if strings.Join(told, ",") != test.warned {
				t.Errorf("warnings %q, want %q", told, test.warned)
			}
			if test.notAsked {
				if len(test.plugin.asked) != 0 {
					t.Errorf("asked %d times, want none", len(test.plugin.asked))
				}
				return
			}
			if len(test.plugin.asked) != 1 {
				t.Fatalf("asked %d times, want once", len(test.plugin.asked))
			}
			asked := test.plugin.asked[0]
			var sent corev1.Pod
			if err := json.Unmarshal(asked.Object.Raw, &sent); err != nil || sent.Kind != "Pod" || sent.APIVersion != "v1" || asked.UserInfo.Username != "ann" || asked.Namespace != "d" || asked.Operation != "CREATE" {
				t.Errorf("asked %+v, %v", asked, err)
			}
		})
	}
}

// What the kernel itself writes passes by: it must be able to start. Nobody gets
// by for their name.
func TestReviewOfTheKernel(t *testing.T) {
	for _, test := range []struct {
		name string
		own  bool
	}{{user.APIServerUser, true}, {user.APIServerUser, false}, {"system:pintle:plugin-host", false}, {"system:serviceaccount:a:b", false}, {"system:node:n", false}} {
		refuses := &fake{answer: `{"allowed":false}`}
		r := New(plugins{refuses}, func(_ context.Context, u user.Info) bool { return test.own && u.GetName() == test.name })
		a := admission.NewAttributesRecord(&corev1.Service{}, nil, corev1.SchemeGroupVersion.WithKind("Service"), "d", "s", corev1.SchemeGroupVersion.WithResource("services"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: test.name})
		err := r.Validate(t.Context(), a, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
		if (err == nil) != test.own || (len(refuses.asked) == 0) != test.own {
			t.Errorf("%s, own %v: error %v, asked %d times", test.name, test.own, err, len(refuses.asked))
		}
	}
}

func TestReviewOfCustomResources(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Toy"}
	toy := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Toy", "metadata": map[string]any{"name": "t"}}}
	a := admission.NewAttributesRecord(toy, nil, kind, "d", "t", kind.GroupVersion().WithResource("toys"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "ann"})
	r := New(plugins{&fake{mutates: true, answer: patched(`[{"op":"add","path":"/spec","value":{"colour":"red"}}]`)}}, nil)
	if err := r.Admit(t.Context(), a, admission.NewObjectInterfacesFromScheme(scheme.Scheme)); err != nil {
		t.Fatal(err)
	}
	if colour, _, _ := unstructured.NestedString(toy.Object, "spec", "colour"); colour != "red" {
		t.Errorf("toy %v, want it red", toy.Object)
	}
}

// A plugin sees an object as the request had it, which is stored as another kind.
func TestReviewOfConvertedObjects(t *testing.T) {
	convertible := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(convertible); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		convertible.AddConversionFunc((*corev1.Event)(nil), (*eventsv1.Event)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*corev1.Event), b.(*eventsv1.Event)
			out.ObjectMeta, out.Regarding, out.Note = in.ObjectMeta, in.InvolvedObject, in.Message
			return nil
		}),
		convertible.AddConversionFunc((*eventsv1.Event)(nil), (*corev1.Event)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*eventsv1.Event), b.(*corev1.Event)
			out.ObjectMeta, out.InvolvedObject, out.Message = in.ObjectMeta, in.Regarding, in.Note
			return nil
		}),
	); err != nil {
		t.Fatal(err)
	}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "d"}, InvolvedObject: corev1.ObjectReference{Name: "p"}, Message: "before"}
	a := admission.NewAttributesRecord(event, nil, eventsv1.SchemeGroupVersion.WithKind("Event"), "d", "e", eventsv1.SchemeGroupVersion.WithResource("events"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "ann"})
	mutating, validating := &fake{mutates: true, answer: patched(`[{"op":"replace","path":"/note","value":"after"}]`)}, &fake{answer: `{"allowed":true}`}
	r := New(plugins{mutating, validating}, nil)
	o := admission.NewObjectInterfacesFromScheme(convertible)
	if err := errors.Join(r.Admit(t.Context(), a, o), r.Validate(t.Context(), a, o)); err != nil {
		t.Fatal(err)
	}
	if event.Message != "after" || event.InvolvedObject.Name != "p" {
		t.Errorf("stored is %+v", event)
	}
	for i, f := range []*fake{mutating, validating} {
		var sent eventsv1.Event
		if err := json.Unmarshal(f.asked[0].Object.Raw, &sent); err != nil || sent.APIVersion != "events.k8s.io/v1" || sent.Regarding.Name != "p" || sent.Note != []string{"before", "after"}[i] {
			t.Errorf("plugin %d was asked about %+v, %v", i, sent, err)
		}
	}
}

// starting is a source whose plugins become known when known is closed.
type starting struct {
	known   chan struct{}
	plugins plugins
}

func (s starting) Reviews() ([]Plugin, bool) {
	select {
	case <-s.known:
		return s.plugins, true
	default:
		return nil, false
	}
}

func (s starting) Reviewing() <-chan struct{} { return s.known }

// Before the plugins are known nobody passes but the kernel, whatever they are
// called: a request waits, and is reviewed or refused then. Plugin objects are
// never reviewed.
func TestReviewBeforeTheStart(t *testing.T) {
	const (
		passes = iota
		waits  // and is refused by the plugin
		refused
	)
	tests := map[string]struct {
		group, user string
		own         bool
		patient     bool
		want        int
	}{
		"a user":                       {user: "ann", want: refused},
		"a user who waits":             {user: "ann", patient: true, want: waits},
		"a service account":            {user: "system:serviceaccount:d:default", want: refused},
		"a service account that waits": {user: "system:serviceaccount:d:default", patient: true, want: waits},
		"a node":                       {user: "system:node:n", want: refused},
		"nobody":                       {user: user.Anonymous, want: refused},
		"who is called as the server":  {user: user.APIServerUser, want: refused},
		"who is called as the host":    {user: "system:pintle:plugin-host", want: refused},
		"the server":                   {user: user.APIServerUser, own: true, want: passes},
		"a plugin object":              {group: "kernel.pintle.dev", user: "ann", want: passes},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := admission.NewAttributesRecord(&corev1.Pod{}, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p", schema.GroupVersionResource{Group: test.group, Version: "v1", Resource: "things"}, "", admission.Create, nil, false, &user.DefaultInfo{Name: test.user})
				source := starting{known: make(chan struct{}), plugins: plugins{&fake{answer: `{"allowed":false}`}}}
				r := New(source, func(context.Context, user.Info) bool { return test.own })
				done := make(chan error, 1)
				go func() { done <- r.Validate(t.Context(), a, admission.NewObjectInterfacesFromScheme(scheme.Scheme)) }()
				synctest.Wait()
				if test.patient {
					close(source.known)
				}
				err := <-done
				switch {
				case test.want == passes && err != nil:
					t.Errorf("error %v", err)
				case test.want == waits && !apierrors.IsForbidden(err):
					t.Errorf("error %v, want the plugin's", err)
				case test.want == refused && (!apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "admission plugins are starting")):
					t.Errorf("error %v, want that they are starting", err)
				}
				if seconds, ok := apierrors.SuggestsClientDelay(err); test.want == refused && (!ok || seconds != retryAfter) {
					t.Errorf("told to wait %d s, %v", seconds, ok)
				}
			})
		})
	}
}

// gone is what a plugin that does not run answers.
type gone struct{ error }

func (gone) Unavailable() bool { return true }

// A plugin that is in use and does not run refuses with 503, and why.
func TestReviewOfWhatIsGone(t *testing.T) {
	a := admission.NewAttributesRecord(&corev1.Pod{}, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "ann"})
	err := New(plugins{&fake{err: gone{errors.New("it is not loaded")}}}, nil).Validate(t.Context(), a, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), `failed calling admission plugin "fake": it is not loaded`) {
		t.Errorf("error %v", err)
	}
	if err := New(plugins{&fake{ignores: true, err: gone{errors.New("it is not loaded")}}}, nil).Validate(t.Context(), a, admission.NewObjectInterfacesFromScheme(scheme.Scheme)); err != nil {
		t.Errorf("ignored: %v", err)
	}
}
