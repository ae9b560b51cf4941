package serviceproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/kernel/node/listener"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// Candidate is a proxy that the configuration names.
type Candidate struct {
	Name   string
	Config []byte
	// Connect returns the proxy, waiting while its plugin starts or restarts.
	Connect func(ctx context.Context) (proxy.Proxy, error)
}

// Config says what a Feeder feeds.
type Config struct {
	// Candidates in order of preference; the first that the machine can run
	// is used. At least one.
	Candidates []Candidate
	// Options are handed to the proxy's Start; Name, Config and Logger are
	// set here.
	Options proxy.Options
	// Client reads services and endpoint slices.
	Client kubernetes.Interface
	Logger *slog.Logger
	// Listening are the ports of this machine that no service may take; nil: none.
	Listening func() listener.Set
	// Own are endpoints that this node serves by itself; nil: none.
	Own *Own
	// Settle is how long changes gather before a diff is sent, at most.
	// Default 10 ms: a rollout touches one service many times.
	Settle time.Duration
}

// Feeder feeds one proxy.
type Feeder struct {
	cfg      Config
	services corelisters.ServiceLister
	byIP     cache.Indexer // services by their addresses (refuse.go)
	slices   cache.Indexer
	nodes    corelisters.NodeLister // the one node; nil where no name is given

	events  record.EventRecorder
	refused map[proxy.Name]string // what was last said about a service's addresses; session's alone

	mu    sync.Mutex
	dirty map[proxy.Name]bool
	wake  chan struct{}

	chosen  chan struct{}
	name    string
	reasons []string
	proxy   proxy.Proxy
}

// New checks the configuration; nothing is started.
func New(cfg Config) (*Feeder, error) {
	switch {
	case len(cfg.Candidates) == 0:
		return nil, errors.New("service proxy: no proxy is named")
	case cfg.Client == nil || cfg.Logger == nil:
		return nil, errors.New("service proxy: no client or no logger")
	}
	if cfg.Settle == 0 {
		cfg.Settle = 10 * time.Millisecond
	}
	return &Feeder{cfg: cfg, dirty: map[proxy.Name]bool{}, refused: map[proxy.Name]string{}, wake: make(chan struct{}, 1), chosen: make(chan struct{})}, nil
}

// Chosen is closed when a proxy was chosen; Choice then names it and says why
// those before it were not.
func (f *Feeder) Chosen() <-chan struct{} { return f.chosen }

// Choice returns the proxy in use and the reasons against better ones.
func (f *Feeder) Choice() (name string, reasons []string) { return f.name, f.reasons }

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
	sliceIndex   = "service"
)

// Run feeds until ctx ends. The proxy is left as it is; see Stop.
func (f *Feeder) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(f.cfg.Client, 0)
	services := factory.Core().V1().Services()
	endpointSlices := factory.Discovery().V1().EndpointSlices()
	f.services, f.slices = services.Lister(), endpointSlices.Informer().GetIndexer()
	f.byIP = services.Informer().GetIndexer()
	if err := services.Informer().AddIndexers(addressIndexers()); err != nil {
		return fmt.Errorf("service proxy: %w", err)
	}
	if err := endpointSlices.Informer().AddIndexers(cache.Indexers{sliceIndex: func(o any) ([]string, error) {
		name, ok := sliceOwner(o)
		if !ok {
			return nil, nil
		}
		return []string{name.String()}, nil
	}}); err != nil {
		return fmt.Errorf("service proxy: %w", err)
	}
	for informer, nameOf := range map[cache.SharedIndexInformer]func(any) (proxy.Name, bool){
		services.Informer():       serviceName,
		endpointSlices.Informer(): sliceOwner,
	} {
		// The indexes are up to date before a handler is called.
		if _, err := informer.AddEventHandler(f.marker(nameOf)); err != nil {
			return fmt.Errorf("service proxy: %w", err)
		}
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: f.cfg.Client.CoreV1().Events("")})
	f.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kube-proxy", Host: f.cfg.Options.NodeName})
	if f.cfg.Own != nil {
		defer f.cfg.Own.Follow(f.touch, func(name proxy.Name) bool {
			_, err := f.services.Services(name.Namespace).Get(name.Name)
			return services.Informer().HasSynced() && apierrors.IsNotFound(err)
		})()
	}
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	node, err := f.followNode(ctx)
	if err != nil {
		cancel()
		return err
	}
	defer node.Shutdown()
	defer cancel() // Shutdown waits for the informers, which end with ctx
	if err := f.choose(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	synced := factory.WaitForCacheSync(ctx.Done())
	maps.Copy(synced, node.WaitForCacheSync(ctx.Done()))
	for t, ok := range synced {
		if !ok {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("service proxy: cache of %v did not fill", t)
		}
	}
	f.feed(ctx)
	return nil
}

func serviceName(o any) (proxy.Name, bool) {
	svc, ok := o.(*corev1.Service)
	if !ok {
		return proxy.Name{}, false
	}
	return proxy.Name{Namespace: svc.Namespace, Name: svc.Name}, true
}

func sliceOwner(o any) (proxy.Name, bool) {
	slice, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
		return proxy.Name{}, false
	}
	return proxy.Name{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}, true
}

// marker notes the service that an object belongs, or belonged, to.
func (f *Feeder) marker(nameOf func(any) (proxy.Name, bool)) cache.ResourceEventHandler {
	mark := func(objects ...any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, o := range objects {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if name, ok := nameOf(o); ok {
				f.dirty[name] = true
			}
			for _, name := range f.outsideAt(o) {
				f.dirty[name] = true
			}
		}
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { mark(o) },
		UpdateFunc: func(old, now any) { mark(old, now) },
		DeleteFunc: func(o any) { mark(o) },
	}
}

// choose probes the candidates in order.
func (f *Feeder) choose(ctx context.Context) error {
	for i, c := range f.cfg.Candidates {
		p, err := c.Connect(ctx)
		if err == nil {
			err = p.Probe(ctx, c.Config)
		}
		if err == nil {
			f.name = c.Name
			f.cfg.Candidates = f.cfg.Candidates[i : i+1]
			close(f.chosen)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.reasons = append(f.reasons, fmt.Sprintf("%s: %v", c.Name, err))
	}
	return fmt.Errorf("service proxy: this machine can run none of those named: %v", f.reasons)
}

// feed connects, starts and feeds the proxy, again after each failure.
func (f *Feeder) feed(ctx context.Context) {
	backoff := firstBackoff
	for ctx.Err() == nil {
		fed, err := f.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if fed {
			backoff = firstBackoff
		}
		f.cfg.Logger.Warn("service proxy failed and is fed anew; its last rules stay in force", "proxy", f.name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// session feeds one run of the proxy; it returns when a diff fails, and
// whether any was applied.
func (f *Feeder) session(ctx context.Context) (fed bool, err error) {
	c := f.cfg.Candidates[0]
	p, err := c.Connect(ctx)
	if err != nil {
		return false, err
	}
	options := f.cfg.Options
	options.Name, options.Config = c.Name, c.Config
	if err := p.Start(ctx, options); err != nil {
		return false, err
	}
	f.mu.Lock()
	f.proxy = p
	f.mu.Unlock()
	var generation uint64
	var told *proxy.Node
	for {
		diff := &proxy.Diff{Generation: generation + 1, Reset_: generation == 0}
		if generation == 0 {
			diff.Changes, err = f.everything()
		} else {
			diff.Changes = f.changes(f.take())
		}
		if err != nil {
			return fed, err
		}
		if now := f.node(); told == nil || !proto.Equal(told, now) {
			diff.Node, told = now, now
		}
		if len(diff.Changes) > 0 || diff.Reset_ || diff.Node != nil {
			if err := p.Apply(ctx, diff); err != nil {
				return fed, err
			}
			generation++
			fed = true
		}
		select {
		case <-ctx.Done():
			return fed, ctx.Err()
		case <-f.wake:
		}
		select {
		case <-ctx.Done():
			return fed, ctx.Err()
		case <-time.After(f.cfg.Settle):
		}
	}
}

// take empties the dirty set.
func (f *Feeder) take() map[proxy.Name]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirty := f.dirty
	f.dirty = map[proxy.Name]bool{}
	return dirty
}

// everything lists all services with their endpoints.
func (f *Feeder) everything() ([]*proxy.Change, error) {
	f.take()
	list, err := f.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	names := map[proxy.Name]bool{}
	for _, svc := range list {
		names[proxy.Name{Namespace: svc.Namespace, Name: svc.Name}] = true
	}
	return f.changes(names), nil
}

// changes says what the named services are now.
func (f *Feeder) changes(names map[proxy.Name]bool) []*proxy.Change {
	out := make([]*proxy.Change, 0, 2*len(names))
	for name := range names {
		id := &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name}
		svc, err := f.services.Services(name.Namespace).Get(name.Name)
		if err != nil {
			svc = nil
		}
		s := serviceOf(svc)
		f.keepOthers(name, svc, s)
		if s == nil {
			out = append(out,
				&proxy.Change{Change: &contractv1.ProxyChange_ServiceRemove{ServiceRemove: id}},
				&proxy.Change{Change: &contractv1.ProxyChange_EndpointsRemove{EndpointsRemove: id}})
			continue
		}
		objects, err := f.slices.ByIndex(sliceIndex, name.String())
		if err != nil {
			objects = nil
		}
		endpoints := f.cfg.Own.of(name, svc)
		list := make([]*discoveryv1.EndpointSlice, 0, len(objects))
		for _, o := range objects {
			list = append(list, o.(*discoveryv1.EndpointSlice))
		}
		if endpoints == nil {
			endpoints = endpointsOf(name, list, f.cfg.Options.NodeName)
		}
		out = append(out,
			&proxy.Change{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: s}},
			&proxy.Change{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: endpoints}})
	}
	return out
}

// Stop stops the proxy after Run has returned; with cleanup nothing of what it
// programmed stays.
func (f *Feeder) Stop(ctx context.Context, cleanup bool) error {
	f.mu.Lock()
	p := f.proxy
	f.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := p.Stop(ctx, cleanup); err != nil {
		return fmt.Errorf("stop service proxy %s: %w", f.name, err)
	}
	return nil
}
