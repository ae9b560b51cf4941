package resources

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// base is the strategy of a kind that decides nothing; kinds embed it and
// override what they do decide. It knows its kind, so that no strategy needs
// the scheme.
type base struct {
	gvk            schema.GroupVersionKind
	also           []schema.GroupVersion // that requests come in, too
	namespaced     bool
	createOnUpdate bool
	// reset is what the strategy takes back from a request: those fields have
	// no owner in managedFields.
	reset *fieldpath.Set
}

var (
	_ Strategy                 = base{}
	_ rest.ResetFieldsStrategy = base{}
)

// resetting is b with the fields it takes back, each a path like
// "metadata.deletionTimestamp" given as its parts.
func (b base) resetting(paths ...[]any) base {
	b.reset = fieldpath.NewSet()
	for _, p := range paths {
		b.reset.Insert(fieldpath.MakePathOrDie(p...))
	}
	return b
}

func (b base) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{b.gvk}, false, nil
}
func (b base) Recognizes(gvk schema.GroupVersionKind) bool { return gvk == b.gvk }
func (b base) GenerateName(prefix string) string {
	return names.SimpleNameGenerator.GenerateName(prefix)
}
func (b base) NamespaceScoped() bool                         { return b.namespaced }
func (b base) AllowCreateOnUpdate(context.Context) bool      { return b.createOnUpdate }
func (b base) AllowUnconditionalUpdate(context.Context) bool { return true }

func (b base) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if b.reset == nil {
		return nil
	}
	out := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(b.gvk.GroupVersion().String()): b.reset}
	for _, gv := range b.also {
		out[fieldpath.APIVersion(gv.String())] = b.reset
	}
	return out
}

func (base) PrepareForCreate(context.Context, runtime.Object)                      {}
func (base) PrepareForUpdate(_ context.Context, _, _ runtime.Object)               {}
func (base) Validate(context.Context, runtime.Object) field.ErrorList              { return nil }
func (base) ValidateUpdate(_ context.Context, _, _ runtime.Object) field.ErrorList { return nil }
func (base) WarningsOnCreate(context.Context, runtime.Object) []string             { return nil }
func (base) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string      { return nil }
func (base) Canonicalize(runtime.Object)                                           {}

// column is a printer column; descriptions are the API types' own.
func column(name, kind, format, description string, priority int32) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Format: format, Description: description, Priority: priority}
}

var metaDoc = metav1.ObjectMeta{}.SwaggerDoc()

func nameColumn() metav1.TableColumnDefinition {
	return column("Name", "string", "name", metaDoc["name"], 0)
}
func ageColumn() metav1.TableColumnDefinition {
	return column("Age", "string", "", metaDoc["creationTimestamp"], 0)
}
