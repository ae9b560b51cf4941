package resources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// Strategy is what a served kind decides about its objects: defaults are set
// by the scheme's defaulting functions, everything else here.
type Strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.RESTDeleteStrategy
}

// Kind describes one served resource. kernel/api turns the list of kinds into
// generic registry stores; subresources with behaviour of their own (pods/log,
// pods/binding, serviceaccounts/token …) are added there.
type Kind struct {
	GVK schema.GroupVersionKind
	// Also are further versions that the kind is served in, perhaps of another
	// group, under the same name. GVK's is the form in memory and in the store;
	// the scheme has the conversions.
	Also       []schema.GroupVersion
	Resource   string // plural, lower case
	Singular   string
	ShortNames []string
	Categories []string
	New        func() runtime.Object
	NewList    func() runtime.Object
	// Strategy is used for create, update and delete of the main resource;
	// its NamespaceScoped says whether the kind is namespaced.
	Strategy Strategy
	// Status updates the status subresource; nil where there is none.
	Status Strategy
	// Subresources are further views of the whole object with update rules of
	// their own, by the name in the path: pods/ephemeralcontainers,
	// pods/resize, namespaces/finalize. Nil for most.
	Subresources map[string]Strategy
	// Fields returns the selectable fields besides metadata.name and
	// metadata.namespace, under upstream's names; nil where there are none.
	Fields func(obj runtime.Object) fields.Set
	// FieldNames lists what Fields can return, so that unknown field
	// selectors are refused with upstream's words.
	FieldNames []string
	// Index names those of Fields that a great many watches ask for by an
	// exact value, with their values: an event then reaches the watches of its
	// values and no others. Nil for most.
	Index storage.IndexerFuncs
	// Columns and Row print the kind as upstream does: priority-0 columns by
	// default, priority-1 ones with -o wide. Row fills cells in the order of
	// Columns.
	Columns []metav1.TableColumnDefinition
	Row     func(obj runtime.Object) ([]any, error)
	// RowOrder compares two objects of a list that is printed; nil leaves the
	// list's own order.
	RowOrder func(a, b runtime.Object) int
	// TTL in seconds for a new object, 0 for none (events).
	TTL uint64
	// Decorate may hook into the finished store (BeginCreate, AfterDelete …),
	// as services do to allocate addresses and ports; nil for most.
	Decorate func(store *genericregistry.Store) error
	// Scale: the kind serves autoscaling/v1 Scale under /scale.
	Scale *ScaleAccess
}

// ScaleAccess reads and writes the fields behind the scale subresource.
type ScaleAccess struct {
	Replicas    func(obj runtime.Object) int32
	SetReplicas func(obj runtime.Object, replicas int32)
	// Status returns status.replicas and the selector in string form.
	Status func(obj runtime.Object) (replicas int32, selector string)
}
