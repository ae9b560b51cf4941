package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/resources/resource"
)

// peerAnswer is what Kubernetes itself (1.36) said of a request; the lines of
// testdata/peer are written by e2e/peer/upstream, which describes them.
type peerAnswer struct {
	Group     string         `json:"group"`
	Object    map[string]any `json:"object"`
	Verb      string         `json:"verb"`
	Edit      peerEdit       `json:"edit"`
	Errors    []string       `json:"errors"`
	Warnings  []string       `json:"warnings"`
	Defaulted map[string]any `json:"defaulted"`
	Stored    map[string]any `json:"stored"`
	Row       []any          `json:"row"`
	Columns   []any          `json:"columns"`
}

// TestPeer compares defaults, validation, updates, warnings and printed rows
// of each served kind with those of Kubernetes, over the corpus of e2e/peer.
func TestPeer(t *testing.T) {
	files, err := filepath.Glob("testdata/peer/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in testdata/peer: %v", err)
	}
	p := newPeer(t)
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { p.file(t, file, seen) })
	}
	for _, k := range p.kinds {
		if !seen[k.GVK.Kind] && k.GVK.Group != "kernel.pintle.dev" {
			t.Errorf("no object of kind %s in the corpus", k.GVK.Kind)
		}
	}
	for key := range peerDifferences {
		if !p.differed[key] {
			t.Errorf("%s is listed as a known difference, and is none", key)
		}
	}
}

type peer struct {
	scheme   *runtime.Scheme
	codecs   serializer.CodecFactory
	kinds    map[string]resources.Kind
	differed map[string]bool
}

// peerAccess is that of the corpus: the namespace has the label for administrators,
// and of drivers all but one may be spoken for.
var peerAccess = resource.Access{
	Namespace: func(context.Context, string) (*corev1.Namespace, error) {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"}}}, nil
	},
	Authorize: func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetName() == "refused.example.com" {
			return authorizer.DecisionNoOpinion, "no reason", nil
		}
		return authorizer.DecisionAllow, "", nil
	},
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	kinds, err := servedKinds(resources.Options{ServiceCIDR: "10.0.0.0/16"}, nil, peerAccess)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{kinds: map[string]resources.Kind{}, differed: map[string]bool{}}
	if p.scheme, err = newScheme(kinds, addDefaults); err != nil {
		t.Fatal(err)
	}
	p.codecs = serializer.NewCodecFactory(p.scheme)
	for _, k := range kinds {
		p.kinds[k.GVK.Kind] = k
	}
	return p
}

func (p *peer) file(t *testing.T, file string, seen map[string]bool) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	var head peerAnswer
	n := 0
	for ; lines.Scan(); n++ {
		var want peerAnswer
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		if want.Object != nil {
			head = want
			seen[fmt.Sprint(head.Object["kind"])] = true
		} else {
			// A variation tells what differs from the group's first.
			want.Defaulted = overlaid(head.Defaulted, want.Defaulted)
			if want.Row == nil {
				want.Row = head.Row
			}
		}
		in, err := edited(head.Object, want.Edit)
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		edit, err := json.Marshal(want.Edit)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%s %s %s", want.Group, want.Verb, edit)
		var diffs []string
		if want.Verb == "create" {
			diffs = p.create(in, want)
		} else {
			diffs = p.update(in, head.Object, want)
		}
		for _, d := range diffs {
			if key, known := p.known(id, d); known {
				p.differed[key] = true
				continue
			}
			t.Errorf("%s:\n  %s", id, d)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests", n)
}

// known finds the listed reason for a difference.
func (p *peer) known(id, diff string) (string, bool) {
	for key := range peerDifferences {
		if strings.Contains(id+": "+diff, key) {
			return key, true
		}
	}
	return "", false
}

func overlaid(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	for k, v := range over {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func (p *peer) decode(in map[string]any) (runtime.Object, schema.GroupVersionKind, resources.Kind, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, schema.GroupVersionKind{}, resources.Kind{}, err
	}
	obj, gvk, err := p.codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, schema.GroupVersionKind{}, resources.Kind{}, err
	}
	k, ok := p.kinds[gvk.Kind]
	if !ok {
		return nil, *gvk, k, fmt.Errorf("kind %s is not served", gvk.Kind)
	}
	return obj, *gvk, k, nil
}

func (p *peer) encode(obj runtime.Object, gv schema.GroupVersion) (map[string]any, error) {
	data, err := runtime.Encode(p.codecs.LegacyCodec(gv), obj)
	if err != nil {
		return nil, err
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	l := leaves(out)
	delete(l, "/metadata/creationTimestamp")
	delete(l, "/metadata/uid")
	for k, v := range l {
		if s, ok := v.(string); ok && len(s) >= len(time.RFC3339)-5 && s > "2025" && s < "2100" {
			if _, err := time.Parse(time.RFC3339Nano, s); err == nil {
				l[k] = "<now>"
			}
		}
		if s, ok := v.(string); ok && uuid.Validate(s) == nil {
			l[k] = "<uuid>"
		}
	}
	return l, nil
}

// readBack is what a later read gives: stored objects are defaulted again.
func (p *peer) readBack(obj runtime.Object, gvk schema.GroupVersionKind) (map[string]any, error) {
	data, err := runtime.Encode(p.codecs.LegacyCodec(gvk.GroupVersion()), obj)
	if err != nil {
		return nil, err
	}
	again, _, err := p.codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	return p.encode(again, gvk.GroupVersion())
}

type peerWarnings struct{ list []string }

func (w *peerWarnings) AddWarning(_, text string) { w.list = append(w.list, text) }

func peerContext(gvk schema.GroupVersionKind, namespaced bool, w *peerWarnings) context.Context {
	ctx := request.WithNamespace(request.NewContext(), metav1.NamespaceNone)
	if namespaced {
		ctx = request.WithNamespace(ctx, metav1.NamespaceDefault)
	}
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, APIGroup: gvk.Group, APIVersion: gvk.Version})
	if gvk.Group == "resource.k8s.io" { // a driver on a node
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "system:serviceaccount:default:driver",
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node1"}}})
	}
	return warning.WithWarningRecorder(ctx, w)
}

func (p *peer) create(in map[string]any, want peerAnswer) (diffs []string) {
	obj, gvk, k, err := p.decode(in)
	if err != nil {
		return []string{"decode: " + err.Error()}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return []string{err.Error()}
	}
	if k.Strategy.NamespaceScoped() && m.GetNamespace() == "" {
		m.SetNamespace(metav1.NamespaceDefault)
	}
	defaulted, err := p.encode(obj, gvk.GroupVersion())
	if err != nil {
		return []string{"encode: " + err.Error()}
	}
	diffs = append(diffs, leafDiff("default", want.Defaulted, defaulted)...)
	diffs = append(diffs, p.row(k, obj, want)...)

	rest.WipeObjectMetaSystemFields(m)
	rest.FillObjectMetaSystemFields(m)
	w := &peerWarnings{}
	errs := peerCauses(func() error {
		return rest.BeforeCreate(k.Strategy, peerContext(gvk, k.Strategy.NamespaceScoped(), w), obj)
	})
	return append(diffs, p.outcome(errs, w.list, defaulted, obj, gvk, want)...)
}

func (p *peer) update(in, old map[string]any, want peerAnswer) []string {
	obj, gvk, k, err := p.decode(in)
	if err != nil {
		return []string{"decode: " + err.Error()}
	}
	before, _, _, err := p.decode(old)
	if err != nil {
		return []string{"decode: " + err.Error()}
	}
	strategy := k.Strategy
	switch want.Verb {
	case "update":
	case "status":
		strategy = k.Status
	default:
		strategy = k.Subresources[want.Verb]
	}
	if strategy == nil {
		return []string{"no subresource " + want.Verb}
	}
	for _, o := range []runtime.Object{obj, before} {
		m, err := meta.Accessor(o)
		if err != nil {
			return []string{err.Error()}
		}
		if strategy.NamespaceScoped() && m.GetNamespace() == "" {
			m.SetNamespace(metav1.NamespaceDefault)
		}
		m.SetUID("u1")
		m.SetGeneration(1)
		m.SetCreationTimestamp(metav1.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
		if m.GetResourceVersion() == "" {
			m.SetResourceVersion("7")
		}
	}
	stored, err := p.encode(before, gvk.GroupVersion())
	if err != nil {
		return []string{"encode: " + err.Error()}
	}
	w := &peerWarnings{}
	errs := peerCauses(func() error {
		return rest.BeforeUpdate(strategy, peerContext(gvk, strategy.NamespaceScoped(), w), obj, before)
	})
	return p.outcome(errs, w.list, stored, obj, gvk, want)
}

func (p *peer) outcome(errs, warnings []string, from map[string]any, obj runtime.Object, gvk schema.GroupVersionKind, want peerAnswer) []string {
	diffs := listDiff("error", valueless(want.Errors), valueless(errs))
	if len(errs) > 0 || len(want.Errors) > 0 {
		return diffs
	}
	diffs = append(diffs, listDiff("warning", want.Warnings, warnings)...)
	to, err := p.readBack(obj, gvk)
	if err != nil {
		return append(diffs, "encode: "+err.Error())
	}
	return append(diffs, leafDiff("stored", want.Stored, changedLeaves(from, to))...)
}

// peerYears is the age of what has a date of the corpus, which grows by the day;
// the answers have <years> instead.
var peerYears = regexp.MustCompile(`^[0-9]+y([0-9]+d)?$`)

func (p *peer) row(k resources.Kind, obj runtime.Object, want peerAnswer) []string {
	out, err := newTable(k).ConvertToTable(context.Background(), obj, nil)
	if err != nil {
		return []string{"row: " + err.Error()}
	}
	var diffs []string
	if want.Columns != nil {
		if have := jsonCopy(out.ColumnDefinitions); fmt.Sprint(have) != fmt.Sprint(want.Columns) {
			for i := range max(len(out.ColumnDefinitions), len(want.Columns)) {
				var a, b any
				if i < len(want.Columns) {
					a = want.Columns[i]
				}
				if h := have.([]any); i < len(h) {
					b = h[i]
				}
				if fmt.Sprint(a) != fmt.Sprint(b) {
					diffs = append(diffs, fmt.Sprintf("column %d: want %v, have %v", i, a, b))
				}
			}
		}
	}
	if len(out.Rows) != 1 {
		return append(diffs, fmt.Sprintf("row: %d rows", len(out.Rows)))
	}
	have := jsonCopy(out.Rows[0].Cells).([]any)
	for i, cell := range have {
		if text, ok := cell.(string); ok && peerYears.MatchString(text) {
			have[i] = "<years>"
		}
	}
	if fmt.Sprint(want.Row) == "[<panic>]" {
		return diffs // upstream cannot print what it refuses anyway
	}
	if fmt.Sprint(have) != fmt.Sprint(want.Row) {
		diffs = append(diffs, fmt.Sprintf("row: want %q, have %q", want.Row, have))
	}
	return diffs
}

// peerCauses lists the field errors of a refusal, in order of their text.
func peerCauses(f func() error) (out []string) {
	defer func() {
		if r := recover(); r != nil {
			out = []string{fmt.Sprintf("panic: %v", r)}
		}
	}()
	err := f()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	for _, c := range status.Status().Details.Causes {
		out = append(out, fmt.Sprintf("%s: %s (%s)", c.Field, peerUID.ReplaceAllString(c.Message, "<uuid>"), c.Type))
	}
	slices.Sort(out)
	return out
}

// peerUID is the UID of a new object, which some errors tell and each run draws anew.
var peerUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// objectValue is an object or a list in the words of an error. Upstream prints
// those of its internal types, whose fields are called otherwise.
var objectValue = regexp.MustCompile(`((?:Invalid|Duplicate|Unsupported) value: )(?:[{\[].*[}\]]|null)(: | \()`)

func valueless(errs []string) []string {
	out := make([]string, len(errs))
	for i, e := range errs {
		// A refused change of a spec shows both below its first line.
		e, _, _ = strings.Cut(e, "\n")
		out[i] = objectValue.ReplaceAllString(e, "$1<object>$2")
	}
	// Upstream says some things twice, where two rules overlap.
	slices.Sort(out)
	return slices.Compact(out)
}

func listDiff(what string, want, have []string) []string {
	var out []string
	rest := slices.Clone(have)
	for _, w := range want {
		if i := slices.Index(rest, w); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			out = append(out, fmt.Sprintf("%s missing: %s", what, w))
		}
	}
	for _, h := range rest {
		out = append(out, fmt.Sprintf("%s too much: %s", what, h))
	}
	return out
}

func leafDiff(what string, want, have map[string]any) []string {
	var out []string
	d := changedLeaves(want, have)
	for _, path := range slices.Sorted(maps.Keys(d)) {
		w, wanted := want[path]
		h, had := have[path]
		switch {
		case !wanted:
			out = append(out, fmt.Sprintf("%s %s: too much: %v", what, path, h))
		case !had:
			out = append(out, fmt.Sprintf("%s %s: missing: %v", what, path, w))
		default:
			out = append(out, fmt.Sprintf("%s %s: want %v, have %v", what, path, w, h))
		}
	}
	return out
}
