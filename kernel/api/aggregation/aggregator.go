package aggregation

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apiserver"
	typed "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	local "k8s.io/kube-aggregator/pkg/controllers/status/local"
	availability "k8s.io/kube-aggregator/pkg/controllers/status/metrics"
	openapicommon "k8s.io/kube-openapi/pkg/common"
)

const (
	// resync is how often handlers are called where nothing has changed. Those of
	// availability ask for their own, every 30 seconds: it can change unseen.
	resync = 10 * time.Hour
	// registrars write APIServices of this server at the same time.
	registrars = 5
)

// Config says what an Aggregator works with.
type Config struct {
	// Source reads a built-in resource straight from its store.
	Source func(gvr schema.GroupVersionResource) (cache.ListerWatcher, error)
	// Client writes APIServices.
	Client typed.APIServicesGetter
	// CRDs are followed by an informer that somebody else runs.
	CRDs crdinformers.CustomResourceDefinitionInformer
	// Builtin are the group versions that the kernel serves.
	Builtin []schema.GroupVersion
	// Discovery takes what other servers serve.
	Discovery discoveryendpoint.ResourceManager
	// OpenAPI says what the head of OpenAPI v2 has.
	OpenAPI func() *openapicommon.Config
	// Certificate is that of the front proxy, as PEM; empty while there is none.
	Certificate func() (cert, key []byte)
	// Plugins reaches the API servers of plugins; nil: there are none.
	Plugins PluginServers
	// Cluster tells this cluster from others: its proxies know their requests by it.
	Cluster []byte
	// Services finds where those are reached that APIServices name.
	Services apiserver.ServiceResolver
	// Logger receives messages.
	Logger *slog.Logger
}

// Aggregator sends requests to other API servers.
type Aggregator struct {
	cfg     Config
	log     *slog.Logger
	builtin sets.Set[schema.GroupVersion]
	ofGroup sets.Set[string] // groups of builtin
	self    string           // in Via

	routes       routes
	lister       listers.APIServiceLister
	informer     cache.SharedIndexInformer
	registration *apiserver.APIServiceRegistrationController
	available    *local.AvailableConditionController
	metrics      *availability.Metrics
	others       *others
}

// availabilityMetrics are once a process, as the registry of the API machinery is.
var availabilityMetrics = sync.OnceValues(func() (*availability.Metrics, error) {
	m := availability.New()
	return m, m.Register(legacyregistry.Register, legacyregistry.CustomRegister)
})

// New makes an Aggregator, which follows nothing yet.
func New(cfg Config) (*Aggregator, error) {
	a := &Aggregator{
		cfg: cfg, log: cfg.Logger, builtin: sets.New(cfg.Builtin...), ofGroup: sets.New[string](), self: pseudonym(cfg.Cluster),
	}
	for _, gv := range cfg.Builtin {
		a.ofGroup.Insert(gv.Group)
	}
	var err error
	if a.metrics, err = availabilityMetrics(); err != nil {
		return nil, fmt.Errorf("aggregation: metrics: %w", err)
	}
	if a.informer, err = a.follow(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"), &apiregistrationv1.APIService{}, resync); err != nil {
		return nil, err
	}
	a.lister = listers.NewAPIServiceLister(a.informer.GetIndexer())
	a.registration = apiserver.NewAPIServiceRegistrationController(followed{a.informer}, a)
	if a.available, err = local.New(withoutPlugins{followed{a.informer}}, cfg.Client, a.metrics); err != nil {
		return nil, fmt.Errorf("aggregation: availability: %w", err)
	}
	a.others = &others{a: a}
	return a, nil
}

// follow makes an informer that reads straight from a store.
func (a *Aggregator) follow(gvr schema.GroupVersionResource, example runtime.Object, every time.Duration) (cache.SharedIndexInformer, error) {
	lw, err := a.cfg.Source(gvr)
	if err != nil {
		return nil, fmt.Errorf("aggregation: %w", err)
	}
	return cache.NewSharedIndexInformer(lw, example, every, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), nil
}

// followed is an informer of APIServices as kube-aggregator's controllers ask for it.
type followed struct{ cache.SharedIndexInformer }

// Informer implements informers.APIServiceInformer.
func (f followed) Informer() cache.SharedIndexInformer { return f.SharedIndexInformer }

// Lister implements informers.APIServiceInformer.
func (f followed) Lister() listers.APIServiceLister {
	return listers.NewAPIServiceLister(f.GetIndexer())
}

func (a *Aggregator) local(gv schema.GroupVersion) bool { return a.builtin.Has(gv) }

func (a *Aggregator) localGroup(group string) bool { return a.ofGroup.Has(group) }

// Serves tells whether the kernel serves a group version itself.
func (a *Aggregator) Serves(gv schema.GroupVersion) bool { return a.local(gv) }

// ServesGroup tells whether the kernel serves a version of a group itself.
func (a *Aggregator) ServesGroup(group string) bool { return a.localGroup(group) }

// Route follows the APIServices until ctx is done; ready is closed when those that
// were there are routed.
func (a *Aggregator) Route(ctx context.Context, ready chan<- struct{}) {
	a.others.ctx = ctx
	routed := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { a.informer.RunWithContext(ctx) })
	group.Go(func() {
		select { // kube-aggregator's own wait looks every 100 ms
		case <-a.informer.HasSyncedChecker().Done():
			a.registration.Run(ctx.Done(), routed)
		case <-ctx.Done():
		}
	})
	group.Go(func() {
		select {
		case <-routed:
			a.routes.synced.Store(true)
			close(ready)
		case <-ctx.Done():
		}
	})
	group.Wait()
	a.others.wait()
}

// Register keeps the APIServices of what the kernel serves, built-in and custom, until
// ctx is done, and their availability.
func (a *Aggregator) Register(ctx context.Context) error {
	if !a.local(apiregistrationv1.SchemeGroupVersion) {
		return nil // switched off: there is nothing to write
	}
	register := autoregister.NewAutoRegisterController(followed{a.informer}, a.cfg.Client)
	for _, gv := range slices.SortedFunc(slices.Values(a.cfg.Builtin), byName) {
		if gv != apiregistrationv1.SchemeGroupVersion {
			// At the start alone: kernels of two versions on one etcd would else make
			// and delete the APIService of a group that one of them has, without end.
			register.AddAPIServiceToSyncOnStart(localService(gv, BuiltinPriority(gv)))
		}
	}
	custom := &customRegistration{crds: a.cfg.CRDs.Lister(), register: register, made: sets.New[schema.GroupVersion]()}
	handle, err := a.cfg.CRDs.Informer().AddEventHandler(custom.handler())
	if err != nil {
		return fmt.Errorf("aggregation: follow custom resource definitions: %w", err)
	}
	defer func() { _ = a.cfg.CRDs.Informer().RemoveEventHandler(handle) }()
	// What is there goes first, or the APIServices of custom resources would be taken
	// for left over.
	select {
	case <-a.cfg.CRDs.Informer().HasSyncedChecker().Done():
	case <-ctx.Done():
		return nil
	}
	custom.sync()
	var group sync.WaitGroup
	group.Go(func() { register.Run(registrars, ctx.Done()) })
	group.Go(func() { a.available.Run(1, ctx.Done()) })
	group.Wait()
	return nil
}

func byName(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) }

// Recertify takes the front proxy's certificate anew.
func (a *Aggregator) Recertify() { a.registration.Enqueue() }
