package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	upstream "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/api/storage"
)

const (
	// openTimeout is how long Open waits for a member to answer.
	openTimeout = 10 * time.Second
	// askTimeout bounds one question of this package to etcd.
	askTimeout = 5 * time.Second
	// readyTimeout and readyEvery are how long /readyz waits for etcd and how old its answer may be.
	readyTimeout = 2 * time.Second
	readyEvery   = time.Second
	// deleteWorkers is the number of concurrent deletes of a deletecollection, as on the embedded store.
	deleteWorkers = 4
)

// Config says where etcd is. The zero value of a field means its default.
type Config struct {
	// Servers are the members' URLs. Required.
	Servers []string
	// CertFile, KeyFile and CAFile are PEM files for TLS; empty: none, none, and the system's authorities.
	CertFile, KeyFile, CAFile string
	// Prefix begins all keys; kernels of one prefix are one cluster. Default /registry.
	Prefix string
	// CompactionInterval is how long history is kept at the least. Default 5 minutes.
	CompactionInterval time.Duration
	// Logger receives what goes wrong behind a request. Default: none.
	Logger *slog.Logger
}

// Backend makes the storages of all resources over etcd. It implements api.Backend.
type Backend struct {
	config storagebackend.Config
	client *kubernetes.Client
	// compactor drops old revisions; kernels of one etcd agree on who does.
	compactor interface {
		etcd3.Compactor
		Stop()
	}
	log *slog.Logger

	// made are the storages to destroy.
	mu     sync.Mutex
	made   []factory.DestroyFunc
	closed bool

	readyMu sync.Mutex
	asked   time.Time
	answer  error
}

// Open connects to etcd and asks each server until one answers. Its error names the servers and what to do.
func Open(ctx context.Context, cfg Config) (*Backend, error) {
	if len(cfg.Servers) == 0 {
		return nil, errors.New("etcd: no servers are named; set store.etcd.servers")
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "/registry"
	}
	if cfg.CompactionInterval == 0 {
		cfg.CompactionInterval = storagebackend.DefaultCompactInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	config := storagebackend.NewDefaultConfig(cfg.Prefix, nil)
	config.Type = storagebackend.StorageTypeETCD3
	config.CompactionInterval = cfg.CompactionInterval
	config.Transport.ServerList = slices.Clone(cfg.Servers)
	config.Transport.CertFile, config.Transport.KeyFile, config.Transport.TrustedCAFile = cfg.CertFile, cfg.KeyFile, cfg.CAFile
	client, err := newClient(config.Transport)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	// Once, as all storages share it: another for each would count what the one before has.
	client.KV = etcd3.NewETCDLatencyTracker(client.KV)
	b := &Backend{config: *config, client: client, log: cfg.Logger}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if _, err := client.Client.Get(ctx, b.key("health")); err != nil {
		return nil, errors.Join(fmt.Errorf("etcd: no answer from %s within %s: %w; check store.etcd.servers and its certificates, and that etcd runs",
			strings.Join(cfg.Servers, ", "), openTimeout, err), client.Client.Close())
	}
	b.compactor = etcd3.NewCompactor(client.Client, config.CompactionInterval, clock.RealClock{}, nil)
	return b, nil
}

// ClientConfig is how this project's clients of etcd connect. Certificates are
// read when a server is asked by https; certFile and keyFile may be empty.
func ClientConfig(servers []string, certFile, keyFile, caFile string) (clientv3.Config, error) {
	cfg := clientv3.Config{Endpoints: servers, DialTimeout: openTimeout, Logger: zap.NewNop()}
	if slices.ContainsFunc(servers, func(s string) bool { return strings.HasPrefix(s, "https://") }) {
		info := transport.TLSInfo{CertFile: certFile, KeyFile: keyFile, TrustedCAFile: caFile}
		tls, err := info.ClientConfig()
		if err != nil {
			return cfg, err
		}
		cfg.TLS = tls
	}
	return cfg, nil
}

func newClient(c storagebackend.TransportConfig) (*kubernetes.Client, error) {
	cfg, err := ClientConfig(c.ServerList, c.CertFile, c.KeyFile, c.TrustedCAFile)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w; check store.etcd.certFile, keyFile and caFile", err)
	}
	cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = 30*time.Second, 10*time.Second
	client, err := kubernetes.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(c.ServerList, ", "), err)
	}
	return client, nil
}

// Close ends the storages and the connections.
func (b *Backend) Close() error {
	b.mu.Lock()
	made := b.made
	b.made, b.closed = nil, true
	b.mu.Unlock()
	for _, destroy := range made {
		destroy()
	}
	b.compactor.Stop()
	if err := b.client.Client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd: close: %w", err)
	}
	return nil
}

// Shared reports whether other kernels may write to the backend: they may.
func (b *Backend) Shared() bool { return true }

// key is a key of this package's own: no resource is called so.
func (b *Backend) key(parts ...string) string {
	return strings.Join(append([]string{b.config.Prefix}, parts...), "/")
}

// Revision is etcd's present revision.
func (b *Backend) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, err := b.client.Client.Get(ctx, b.key("health"))
	if err != nil {
		return 0, fmt.Errorf("etcd: %w", err)
	}
	return out.Header.Revision, nil
}

// ReadyCheck says whether etcd answers, which takes a majority of its members; for /readyz.
func (b *Backend) ReadyCheck() error {
	b.readyMu.Lock()
	defer b.readyMu.Unlock()
	if time.Since(b.asked) < readyEvery {
		return b.answer
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	_, err := b.client.Client.Get(ctx, b.key("health"))
	if err != nil {
		err = fmt.Errorf("error getting data from etcd: %w", err)
	}
	b.asked, b.answer = time.Now(), err
	return err
}

// NewFactory is storage.NewFactory over etcd.
func (b *Backend) NewFactory(scheme *runtime.Scheme, codecs runtime.StorageSerializer, mediaType string) *serverstorage.DefaultStorageFactory {
	return storage.NewFactory(b.config, scheme, codecs, mediaType)
}

// RESTOptionsGetter gives the options of resources whose codecs come from a storage factory, such as NewFactory's.
func (b *Backend) RESTOptionsGetter(f storage.Factory) generic.RESTOptionsGetter {
	return restOptions{b, f}
}

// CRDRESTOptionsGetter gives the options of custom resources.
func (b *Backend) CRDRESTOptionsGetter() generic.RESTOptionsGetter {
	return restOptions{b, storage.NewCustomFactory(b.config)}
}

type restOptions struct {
	backend *Backend
	factory storage.Factory
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (r restOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	config, err := r.factory.NewConfig(resource, example)
	if err != nil {
		return generic.RESTOptions{}, fmt.Errorf("unable to find storage destination for %v, due to %w", resource, err)
	}
	return generic.RESTOptions{
		StorageConfig:           config,
		Decorator:               r.backend.Decorator,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteWorkers,
		ResourcePrefix:          r.factory.ResourcePrefix(resource),
	}, nil
}

// raw makes upstream's storage without its cacher. All storages share one
// client: upstream makes one each, which costs it a connection a resource.
func (b *Backend) raw(config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (upstream.Interface, factory.DestroyFunc, error) {
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := upstream.APIObjectVersioner{}
	decoder := etcd3.NewDefaultDecoder(config.Codec, versioner)
	unsafe := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if unsafe {
		transformer, decoder = etcd3.WithCorruptObjErrorHandlingTransformer(transformer), etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	s, err := etcd3.New(b.client, b.compactor, config.Codec, newFunc, newListFunc, config.Prefix, resourcePrefix, config.GroupResource,
		transformer, config.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		return nil, nil, err
	}
	if unsafe {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(s, config.GroupResource), s.Close, nil
	}
	return s, s.Close, nil
}

// Decorator is the generic.StorageDecorator that makes a resource's storage: upstream's, with its cacher.
func (b *Backend) Decorator(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	keyFunc func(obj runtime.Object) (string, error),
	newFunc func() runtime.Object,
	newListFunc func() runtime.Object,
	attributes upstream.AttrFunc,
	trigger upstream.IndexerFuncs,
	indexers *cache.Indexers,
) (upstream.Interface, factory.DestroyFunc, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, fmt.Errorf("etcd: storage of %s: the backend is closed", config.GroupResource)
	}
	raw, destroyRaw, err := b.raw(config, newFunc, newListFunc, resourcePrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: storage of %s: %w", config.GroupResource, err)
	}
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: raw, Versioner: upstream.APIObjectVersioner{}, GroupResource: config.GroupResource,
		EventsHistoryWindow: config.EventsHistoryWindow, ResourcePrefix: resourcePrefix, KeyFunc: keyFunc,
		NewFunc: newFunc, NewListFunc: newListFunc, GetAttrsFunc: attributes, IndexerFuncs: trigger, Indexers: indexers,
		Codec: config.Codec,
	})
	if err != nil {
		destroyRaw()
		return nil, nil, fmt.Errorf("etcd: cache of %s: %w", config.GroupResource, err)
	}
	s := cacher.NewCacheDelegator(cached, raw)
	destroy := sync.OnceFunc(func() {
		s.Stop()
		cached.Stop()
		destroyRaw()
	})
	b.made = append(b.made, destroy)
	return s, destroy, nil
}
