package storage

import (
	"errors"
	"log/slog"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/recognizer"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// Options tune a Backend. The zero value of a field means its default.
type Options struct {
	// Prefix begins all keys. Default /registry.
	Prefix string
	// CacheBytes bounds the decoded objects kept, counted by their encoded size (decoded they take two to five times
	// that). Default 32 MiB.
	CacheBytes int64
	// EncodingBytes bounds the encodings kept for lists that are sent (EncodedList). Default 32 MiB;
	// less than zero: none are kept.
	EncodingBytes int64
	// EncodingIdle is how long a resource's encodings are kept after its last list. Default 30 seconds.
	EncodingIdle time.Duration
	// BookmarkInterval is the time between two bookmarks of a watch that asked for them. Default 1 minute.
	BookmarkInterval time.Duration
	// ProgressInterval is the time between two progress notifications of an internal watch. Default 5 seconds.
	ProgressInterval time.Duration
	// DeleteCollectionWorkers is the number of concurrent deletes of a deletecollection. Default 4.
	DeleteCollectionWorkers int
	// Tracker receives the number of objects a resource, for priority and fairness. Default: none.
	Tracker flowcontrolrequest.StorageObjectCountTracker
	// Logger receives what goes wrong behind a request. Default: none.
	Logger *slog.Logger
}

// Backend makes the storages of all resources over one store and its bus.
type Backend struct {
	store  *store.Store
	bus    *bus.Bus
	opts   Options
	budget *cacheBudget
	// encodings is shared as budget is.
	encodings *encodingBudget
}

// NewBackend connects to a store and the bus that publishes its commits.
func NewBackend(st *store.Store, b *bus.Bus, opts Options) (*Backend, error) {
	if st == nil || b == nil {
		return nil, errors.New("storage: a backend needs a store and a bus")
	}
	if opts.Prefix == "" {
		opts.Prefix = "/registry"
	}
	if opts.CacheBytes == 0 {
		opts.CacheBytes = 32 << 20
	}
	if opts.EncodingBytes == 0 {
		opts.EncodingBytes = 32 << 20
	}
	if opts.EncodingIdle <= 0 {
		opts.EncodingIdle = 30 * time.Second
	}
	if opts.BookmarkInterval <= 0 {
		opts.BookmarkInterval = time.Minute
	}
	if opts.ProgressInterval <= 0 {
		opts.ProgressInterval = 5 * time.Second
	}
	if opts.DeleteCollectionWorkers <= 0 {
		opts.DeleteCollectionWorkers = 4
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Backend{
		store: st, bus: b, opts: opts,
		budget:    &cacheBudget{max: opts.CacheBytes},
		encodings: &encodingBudget{max: opts.EncodingBytes, idle: opts.EncodingIdle},
	}, nil
}

// Rest drops what is kept for speed alone: decoded objects, and those that the bus keeps with its recent events. What is
// read or watched afterwards is decoded again. A kernel that has become idle calls it: few of the objects are left of
// many that lay beside them, and while they are there the memory around them cannot be given back.
func (b *Backend) Rest() {
	b.budget.drop()
	b.bus.Detach()
}

// ReadyCheck says whether the store takes reads and writes; for /readyz.
func (b *Backend) ReadyCheck() error { return b.store.Err() }

// Decorator is the generic.StorageDecorator that makes a resource's storage.
func (b *Backend) Decorator(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	_ func(obj runtime.Object) (string, error),
	newFunc func() runtime.Object,
	newListFunc func() runtime.Object,
	_ storage.AttrFunc,
	trigger storage.IndexerFuncs,
	_ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	s, err := b.New(Config{
		Codec:          config.Codec,
		Transformer:    config.Transformer,
		Prefix:         config.Prefix,
		ResourcePrefix: resourcePrefix,
		GroupResource:  config.GroupResource,
		NewFunc:        newFunc,
		NewListFunc:    newListFunc,
		Trigger:        trigger,
	})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Destroy, nil
}

// RESTOptionsGetter gives the options of resources whose codecs come from a storage factory, such as NewFactory's.
func (b *Backend) RESTOptionsGetter(f Factory) generic.RESTOptionsGetter {
	return restOptions{backend: b, factory: f}
}

// CRDRESTOptionsGetter gives the options of custom resources. It is what apiextensions-apiserver's
// ExtraConfig.CRDRESTOptionsGetter takes.
func (b *Backend) CRDRESTOptionsGetter() generic.RESTOptionsGetter {
	return restOptions{backend: b, factory: NewCustomFactory(*storagebackend.NewDefaultConfig(b.opts.Prefix, nil))}
}

// resourcePrefixes are the places of resources whose keys do not begin with their name, as kube-apiserver has them.
var resourcePrefixes = map[schema.GroupResource]string{
	{Resource: "replicationcontrollers"}:                                   "controllers",
	{Resource: "endpoints"}:                                                "services/endpoints",
	{Resource: "services"}:                                                 "services/specs",
	{Resource: "nodes"}:                                                    "minions",
	{Group: "extensions", Resource: "ingresses"}:                           "ingress",
	{Group: "networking.k8s.io", Resource: "ingresses"}:                    "ingress",
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: "apiextensions.k8s.io/customresourcedefinitions",
}

// NewFactory is NewFactory over this backend.
func (b *Backend) NewFactory(scheme *runtime.Scheme, codecs runtime.StorageSerializer, mediaType string) *serverstorage.DefaultStorageFactory {
	return NewFactory(*storagebackend.NewDefaultConfig(b.opts.Prefix, nil), scheme, codecs, mediaType)
}

// Shared reports whether other kernels may write to the backend: none may.
func (b *Backend) Shared() bool { return false }

// NewFactory gives a storage factory over config that encodes each resource in the preferred version of its group in
// scheme, as mediaType (runtime.ContentTypeProtobuf, or runtime.ContentTypeJSON for kinds without protobuf), and lays
// keys out as kube-apiserver does.
func NewFactory(config storagebackend.Config, scheme *runtime.Scheme, codecs runtime.StorageSerializer, mediaType string) *serverstorage.DefaultStorageFactory {
	special := make(map[schema.GroupResource]string, len(resourcePrefixes))
	for resource, prefix := range resourcePrefixes {
		special[resource] = prefix
	}
	return serverstorage.NewDefaultStorageFactory(config, mediaType, codecs,
		serverstorage.NewDefaultResourceEncodingConfig(scheme), serverstorage.NewResourceConfig(), special)
}

// NewCustomFactory gives the factory of custom resources over config: unstructured JSON, or CBOR by its feature gate.
func NewCustomFactory(config storagebackend.Config) Factory {
	binary := cbor.NewSerializer(unstructuredscheme.NewUnstructuredCreator(), unstructuredscheme.NewUnstructuredObjectTyper())
	var encoder runtime.Encoder = unstructured.UnstructuredJSONScheme
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		encoder = binary
	}
	config.Codec = runtime.NewCodec(encoder, recognizer.NewDecoder(binary, unstructured.UnstructuredJSONScheme))
	return oneCodec{&config}
}

// Factory is the part of k8s.io/apiserver's StorageFactory that is needed here.
type Factory interface {
	// NewConfig gives the resource's codec and where it is kept.
	NewConfig(resource schema.GroupResource, example runtime.Object) (*storagebackend.ConfigForResource, error)
	// ResourcePrefix is the place of the resource's keys below the prefix of all.
	ResourcePrefix(resource schema.GroupResource) string
}

// oneCodec is the Factory of resources that share a codec.
type oneCodec struct{ config *storagebackend.Config }

func (f oneCodec) NewConfig(resource schema.GroupResource, _ runtime.Object) (*storagebackend.ConfigForResource, error) {
	return f.config.ForResource(resource), nil
}

func (f oneCodec) ResourcePrefix(resource schema.GroupResource) string {
	return resource.Group + "/" + resource.Resource
}

type restOptions struct {
	backend *Backend
	factory Factory
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (r restOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	config, err := r.factory.NewConfig(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	config.StorageObjectCountTracker = r.backend.opts.Tracker
	o := generic.RESTOptions{
		StorageConfig:             config,
		Decorator:                 r.backend.Decorator,
		EnableGarbageCollection:   true,
		DeleteCollectionWorkers:   r.backend.opts.DeleteCollectionWorkers,
		ResourcePrefix:            r.factory.ResourcePrefix(resource),
		StorageObjectCountTracker: r.backend.opts.Tracker,
	}
	if r.backend.opts.Tracker != nil {
		o.CountMetricPollPeriod = time.Minute
	}
	return o, nil
}

// pathPrefix brings a configured prefix into the form of a directory.
func pathPrefix(prefix string) string {
	p := path.Join("/", prefix)
	if !strings.HasSuffix(p, "/") {
		p += "/"
	}
	return p
}
