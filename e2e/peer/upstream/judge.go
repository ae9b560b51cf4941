package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	apiservicestore "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
)

const requestNamespace = "default"

// verdict is what became of one request.
type verdict struct {
	Errors   []string
	Warnings []string
	// Defaulted is the object as decoded, Stored as it would be written; nil
	// where it was refused.
	Defaulted, Stored map[string]any
	Row               []any
	Columns           []metav1.TableColumnDefinition
}

type recorder struct{ list []string }

func (r *recorder) AddWarning(_, text string) { r.list = append(r.list, text) }

type judge struct {
	tables *printers.HumanReadableGenerator
}

func newJudge() *judge {
	return &judge{printers.NewTableGenerator().With(printersinternal.AddHandlers)}
}

// errUnreadable: the object cannot be decoded, which says nothing of its kind.
var errUnreadable = errors.New("unreadable")

func decode(in map[string]any) (runtime.Object, schema.GroupVersionKind, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, schema.GroupVersionKind{}, err
	}
	obj, gvk, err := legacyscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, schema.GroupVersionKind{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return obj, *gvk, nil
}

// encode gives the leaves of obj, without what differs from run to run.
func encode(obj runtime.Object, gv schema.GroupVersion) (map[string]any, error) {
	data, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(gv), obj)
	if err != nil {
		return nil, err
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	leaves := flat(out)
	delete(leaves, "/metadata/creationTimestamp")
	delete(leaves, "/metadata/uid")
	for k, v := range leaves {
		if s, ok := v.(string); ok && len(s) >= len(time.RFC3339)-5 && s > "2025" && s < "2100" {
			if _, err := time.Parse(time.RFC3339Nano, s); err == nil {
				leaves[k] = "<now>"
			}
		}
		if s, ok := v.(string); ok && uuid.Validate(s) == nil {
			leaves[k] = "<uuid>"
		}
	}
	return leaves, nil
}

func requestContext(gvk schema.GroupVersionKind, namespaced bool, warnings *recorder) context.Context {
	ctx := request.WithNamespace(request.NewContext(), metav1.NamespaceNone)
	if namespaced {
		ctx = request.WithNamespace(ctx, requestNamespace)
	}
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, APIGroup: gvk.Group, APIVersion: gvk.Version})
	if gvk.Group == "resource.k8s.io" { // a driver on a node
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "system:serviceaccount:default:driver",
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node1"}}})
	}
	return warning.WithWarningRecorder(ctx, warnings)
}

// inNamespace puts an object of a namespaced kind that names none into one.
func inNamespace(obj runtime.Object, namespaced bool) {
	if m, err := meta.Accessor(obj); err == nil && namespaced && m.GetNamespace() == "" {
		m.SetNamespace(requestNamespace)
	}
}

func (j *judge) create(in map[string]any) (v verdict, err error) {
	obj, gvk, err := decode(in)
	if err != nil {
		return v, err
	}
	strategy, ok := kinds[gvk.Kind].(strategy)
	if !ok {
		return v, fmt.Errorf("no strategy for %s", gvk.Kind)
	}
	inNamespace(obj, strategy.NamespaceScoped())
	if v.Defaulted, err = encode(obj, gvk.GroupVersion()); err != nil {
		return v, err
	}
	if v.Row, v.Columns, err = j.row(obj, gvk); err != nil {
		return v, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return v, err
	}
	rest.WipeObjectMetaSystemFields(m)
	rest.FillObjectMetaSystemFields(m)
	warnings := &recorder{}
	v.Errors = causes(guard(func() error {
		return rest.BeforeCreate(strategy, requestContext(gvk, strategy.NamespaceScoped(), warnings), obj)
	}))
	return v.finish(obj, gvk, warnings)
}

func (j *judge) update(in, old map[string]any, sub string) (v verdict, err error) {
	obj, gvk, err := decode(in)
	if err != nil {
		return v, err
	}
	before, _, err := decode(old)
	if err != nil {
		return v, err
	}
	key := gvk.Kind
	if sub != "" {
		key += "/" + sub
	}
	strategy, ok := kinds[key]
	if !ok {
		return v, fmt.Errorf("no strategy for %s", key)
	}
	for _, o := range []runtime.Object{obj, before} {
		inNamespace(o, strategy.NamespaceScoped())
		m, err := meta.Accessor(o)
		if err != nil {
			return v, err
		}
		m.SetUID("u1")
		m.SetGeneration(1)
		m.SetCreationTimestamp(metav1.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
		if m.GetResourceVersion() == "" {
			m.SetResourceVersion("7")
		}
	}
	if v.Defaulted, err = encode(before, gvk.GroupVersion()); err != nil {
		return v, err
	}
	warnings := &recorder{}
	v.Errors = causes(guard(func() error {
		return rest.BeforeUpdate(strategy, requestContext(gvk, strategy.NamespaceScoped(), warnings), obj, before)
	}))
	return v.finish(obj, gvk, warnings)
}

func (v verdict) finish(obj runtime.Object, gvk schema.GroupVersionKind, warnings *recorder) (verdict, error) {
	v.Warnings = warnings.list
	if len(v.Errors) > 0 {
		return v, nil
	}
	// What a later read gives: stored objects are defaulted again.
	data, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(gvk.GroupVersion()), obj)
	if err != nil {
		return v, err
	}
	again, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return v, err
	}
	v.Stored, err = encode(again, gvk.GroupVersion())
	return v, err
}

var errPanic = errors.New("panic")

// guard turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	return f()
}

// causes lists the field errors of a refusal, in order of their text.
func causes(err error) []string {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		out = append(out, fmt.Sprintf("%s: %s (%s)", c.Field, drawnUID.ReplaceAllString(c.Message, "<uuid>"), c.Type))
	}
	slices.Sort(out)
	return out
}

// drawnUID is the UID of a new object, which some errors tell and each run draws anew.
var drawnUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// years is the age of what has a date of the corpus, which grows by the day: the
// answers have <years> instead.
var years = regexp.MustCompile(`^[0-9]+y([0-9]+d)?$`)

func (j *judge) row(obj runtime.Object, gvk schema.GroupVersionKind) ([]any, []metav1.TableColumnDefinition, error) {
	var table *metav1.Table
	err := guard(func() (err error) {
		table, err = j.tables.GenerateTable(obj, printers.GenerateOptions{Wide: true})
		return err
	})
	if errors.Is(err, errPanic) {
		// An object that no validation lets pass need not be printable.
		return []any{"<panic>"}, nil, nil
	}
	if err != nil && strings.Contains(err.Error(), "no table handler") {
		gr := schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind) + "s"}
		convertor := rest.NewDefaultTableConvertor(gr)
		if gvk.Kind == "APIService" { // kube-aggregator prints its own kind
			convertor = &apiservicestore.REST{}
		}
		table, err = convertor.ConvertToTable(context.Background(), obj, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(table.Rows) != 1 {
		return nil, nil, fmt.Errorf("%d rows for one object", len(table.Rows))
	}
	cells := table.Rows[0].Cells
	for i, cell := range cells {
		if text, ok := cell.(string); ok && years.MatchString(text) {
			cells[i] = "<years>"
		}
	}
	return cells, table.ColumnDefinitions, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
