package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/apimachinery/lease"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/gc"
	"pintle.dev/pintle/kernel/node/image"
	"pintle.dev/pintle/kernel/node/logs"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/server"
)

const (
	leaseNamespace = "kube-node-lease"
	orphanPeriod   = 2 * time.Second
	// tearDownGrace is the most that one container gets when the whole node is torn down.
	tearDownGrace = 10 * time.Second
	retryPeriod   = 200 * time.Millisecond
)

// Agent runs the pods of one node.
type Agent struct {
	cfg  Config
	deps Deps

	ready chan struct{}

	mu       sync.Mutex
	listener net.Listener
}

// New checks the configuration and builds the agent; nothing is started.
func New(cfg Config, deps Deps) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := deps.check(cfg); err != nil {
		return nil, err
	}
	deps.Logger = deps.Logger.With("node", cfg.NodeName)
	return &Agent{cfg: cfg, deps: deps, ready: make(chan struct{})}, nil
}

// Ready is closed when the node is registered and the agent takes pods.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Addr is the kubelet server's address once it listens; nil before, and without a server.
func (a *Agent) Addr() net.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listener == nil {
		return nil
	}
	return a.listener.Addr()
}

func (a *Agent) port() int32 {
	if addr, ok := a.Addr().(*net.TCPAddr); ok {
		return int32(addr.Port)
	}
	return 0
}

// Run works until ctx ends and returns when every goroutine of the agent has ended. Containers go on running unless
// Config.TearDownOnStop is set.
func (a *Agent) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	services, synced := a.services(inner, &wg)
	p, err := a.build(context.WithoutCancel(ctx), services)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			p.close()
		}
	}()
	if err := a.until(inner, "reach the container runtime", func() error { _, err := p.reporter.Inspect(inner); return err }); err != nil {
		return ignoreStop(ctx, err)
	}
	if a.cfg.PodCIDR != "" {
		if _, err := p.cri.UpdateRuntimeConfig(inner, &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
			NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: a.cfg.PodCIDR}}}); err != nil {
			a.deps.Logger.Debug("the container runtime did not take the pod CIDR", "err", err)
		}
	}
	if a.cfg.Port >= 0 {
		srv, err := a.listen(p)
		if err != nil {
			return err
		}
		wg.Go(func() { _ = srv.Run(inner) })
	}
	p.reporter.Event(corev1.EventTypeNormal, "Starting", "Starting kubelet.") // KLT-32

	wg.Go(func() { _ = p.pleg.Run(inner) })
	select {
	case <-p.pleg.Listed():
	case <-inner.Done():
		return ignoreStop(ctx, inner.Err())
	}
	if err := a.until(inner, "register with the API", func() error { return p.reporter.Register(inner) }); err != nil {
		return ignoreStop(ctx, err)
	}
	wg.Go(func() { _ = p.status.Run(inner) })
	wg.Go(func() { _ = p.reporter.Run(inner) })
	heartbeat := lease.NewController(clock.RealClock{}, a.deps.Client, a.cfg.NodeName, int32(a.cfg.LeaseDuration/time.Second), nil,
		a.cfg.LeaseRenew, a.cfg.NodeName, leaseNamespace, a.ownLease(p))
	wg.Go(func() { heartbeat.Run(inner) })
	select {
	case <-synced: // environments need services
	case <-inner.Done():
		return ignoreStop(ctx, inner.Err())
	}
	source := a.deps.Pods
	if source == nil {
		s := NewPodSource(a.deps.Client, a.cfg.NodeName)
		wg.Go(func() { _ = s.Run(inner) })
		source = s
	}
	cancel := source.Subscribe(a.cfg.NodeName, handler{p})
	defer cancel()
	every := func(period time.Duration, what string, do func(context.Context) error) {
		wg.Go(func() { a.every(inner, period, what, do) })
	}
	orphans := orphanPeriod
	if a.cfg.SkipVolumes {
		orphans = 5 * orphanPeriod // many agents in one process
	}
	every(orphans, "remove orphaned pods", func(ctx context.Context) error { return a.orphans(source, p) })
	every(gc.Period, "collect containers", func(ctx context.Context) error {
		p.pods.Collect()
		p.images.Collect()
		err := p.gc.Collect(ctx)
		if err != nil {
			p.reporter.Event(corev1.EventTypeWarning, "ContainerGCFailed", err.Error())
		}
		return err
	})
	if !a.cfg.SkipVolumes {
		every(image.Period, "collect images", func(ctx context.Context) error {
			err := p.imageGC.Collect(ctx)
			if err != nil {
				p.reporter.Event(corev1.EventTypeWarning, "ImageGCFailed", err.Error())
			}
			return err
		})
		every(logs.Period, "rotate logs", p.rotator.Rotate)
		every(a.cfg.StoragePeriod, "limit local storage", p.pods.LimitStorage)
	}
	if err := p.imageGC.Scan(inner, time.Now()); err != nil && inner.Err() == nil {
		a.deps.Logger.Warn("could not list images", "err", err)
	}
	p.reporter.Poke()
	close(a.ready)
	a.deps.Logger.Info("node is ready to take pods", "runtime", p.reporter.RuntimeName(), "port", a.port())

	<-inner.Done()
	p.pods.Close()
	stop()
	wg.Wait()
	if a.cfg.TearDownOnStop {
		tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*tearDownGrace+30*time.Second)
		defer cancel()
		err = p.pods.TearDown(tctx, tearDownGrace)
	}
	closed = true
	p.close()
	return err
}

func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// until tries again until do succeeds or ctx ends.
func (a *Agent) until(ctx context.Context, what string, do func() error) error {
	wait, told := retryPeriod, false
	for {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !told {
			a.deps.Logger.Warn("could not "+what+"; trying again", "err", err)
			told = true
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("node %s: %s: %w", a.cfg.NodeName, what, err)
		case <-t.C:
		}
		wait = min(2*wait, 7*time.Second)
	}
}

func (a *Agent) every(ctx context.Context, period time.Duration, what string, do func(context.Context) error) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			a.deps.Logger.Warn("could not "+what, "err", err)
		}
	}
}

// ownLease makes the Node the owner of its Lease, so that the Lease goes with it.
func (a *Agent) ownLease(p *parts) lease.ProcessLeaseFunc {
	return func(l *coordinationv1.Lease) error {
		if n := p.reporter.Object(); n != nil && len(l.OwnerReferences) == 0 {
			l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		}
		return nil
	}
}

// services answers the services for environment variables: the shared lister's, or the agent's own watch.
func (a *Agent) services(ctx context.Context, wg *sync.WaitGroup) (func() ([]*corev1.Service, error), <-chan struct{}) {
	synced := make(chan struct{})
	if a.deps.Services != nil {
		close(synced)
		return func() ([]*corev1.Service, error) { return a.deps.Services.List(labels.Everything()) }, synced
	}
	indexer, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return a.deps.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return a.deps.Client.CoreV1().Services(metav1.NamespaceAll).Watch(ctx, o)
			},
		}, a.deps.Client),
		ObjectType: &corev1.Service{}, Handler: cache.ResourceEventHandlerFuncs{}, Indexers: cache.Indexers{},
	})
	wg.Go(func() { informer.RunWithContext(ctx) })
	wg.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			close(synced)
		}
	})
	lister := corelisters.NewServiceLister(indexer.(cache.Indexer))
	return func() ([]*corev1.Service, error) { return lister.List(labels.Everything()) }, synced
}

// orphans stops what the runtime has of pods that the API does not have, and removes directories of pods that are
// nowhere any more.
func (a *Agent) orphans(source PodSource, p *parts) error {
	select {
	case <-source.Synced():
	default:
		return nil // which pods there are is not known yet
	}
	var errs []error
	running := p.pleg.Pods()
	for uid, rt := range running {
		if !p.pods.Known(uid) {
			p.pods.Orphan(rt)
		}
	}
	if a.cfg.SkipVolumes {
		return nil
	}
	uids, err := p.volumes.Pods()
	errs = append(errs, err)
	for _, uid := range uids {
		if !p.pods.Known(uid) && running[uid] == nil {
			errs = append(errs, p.volumes.Unmount(uid))
		}
	}
	return errors.Join(errs...)
}

type handler struct{ p *parts }

func (h handler) PodSet(o *corev1.Pod)  { h.p.pods.Set(o) }
func (h handler) PodGone(o *corev1.Pod) { h.p.pods.Gone(o) }

var _ PodHandler = handler{}

// TearDown stops the containers and sandboxes of every pod on the node and unmounts their volumes; API objects stay,
// so that the next start makes the pods again. It is called when Run is not running.
func (a *Agent) TearDown(ctx context.Context) error {
	p, err := a.build(ctx, func() ([]*corev1.Service, error) { return nil, nil })
	if err != nil {
		return err
	}
	defer p.close()
	return p.pods.TearDown(ctx, tearDownGrace)
}

func (a *Agent) listen(p *parts) (*server.Server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(a.cfg.Address, fmt.Sprint(a.cfg.Port)))
	if err != nil {
		return nil, fmt.Errorf("node %s: kubelet server: %w; choose another port or 0 for a free one", a.cfg.NodeName, err)
	}
	a.mu.Lock()
	a.listener = l
	a.mu.Unlock()
	return server.New(server.Config{NodeName: a.cfg.NodeName, TLS: a.deps.ServingCert, ClientCAs: a.deps.ClientCAs, APIClients: a.cfg.APIClients, RootDir: a.cfg.RootDir},
		server.Deps{Listener: l, Client: a.deps.Client, CRI: p.cri, Pods: p.pods, Status: p.status, Node: p.reporter, Healthy: p.pleg.Healthy, Logger: a.deps.Logger}), nil
}

func imageFS(ctx context.Context, client *cri.Client) (image.FS, error) {
	info, err := client.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return image.FS{}, err
	}
	if len(info.ImageFilesystems) == 0 || info.ImageFilesystems[0].FsId == nil {
		return image.FS{}, errors.New("the container runtime names no image file system")
	}
	capacity, available, _, _, err := nodestatus.Disk(info.ImageFilesystems[0].FsId.Mountpoint)
	if err != nil {
		return image.FS{}, err
	}
	return image.FS{Capacity: capacity, Used: capacity - available}, nil
}
