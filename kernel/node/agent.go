package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/heartbeat"
	"pintle.dev/pintle/kernel/node/image"
	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/kernel/node/logs"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/pleg"
	"pintle.dev/pintle/kernel/node/server"
	"pintle.dev/pintle/kernel/node/timetable"
)

const (
	retryPeriod = 200 * time.Millisecond
)

// Agent runs the pods of one node.
type Agent struct {
	cfg  Config
	deps Deps

	ready chan struct{}

	mu       sync.Mutex
	listener net.Listener
	parts    *parts // of the run under way
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

// Reconfigure takes over what of a configuration can change while the agent runs: the policies by which images and
// dead containers are removed and logs rotated. Everything else waits for the next agent.
func (a *Agent) Reconfigure(cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.parts != nil {
		a.parts.reconfigure(cfg)
	}
	return nil
}

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

// Listening are the ports that the kernel and this agent serve on, which pods may not take.
func (a *Agent) Listening() listener.Set {
	set := slices.Clone(a.cfg.Listening)
	if addr, ok := a.Addr().(*net.TCPAddr); ok {
		set = append(set, listener.Listener{Owner: "the node agent", Address: addr.IP.String(), Port: int32(addr.Port)})
	} else if a.cfg.Port > 0 { // will be
		set = append(set, listener.Listener{Owner: "the node agent", Address: a.cfg.Address, Port: int32(a.cfg.Port)})
	}
	return set
}

// Run works until ctx ends, or the Node has another range of pod IPs than it was given before, which is an error. It
// returns when every goroutine of the agent has ended. Containers go on running unless Config.TearDownOnStop is set.
func (a *Agent) Run(ctx context.Context) error {
	r, err := a.Start(ctx)
	if err != nil {
		return ignoreStop(ctx, err)
	}
	select {
	case <-ctx.Done():
		return r.Stop()
	case err := <-r.parts.reporter.RangeLost():
		return errors.Join(err, r.Stop())
	}
}

// Running is an agent at work. It has no goroutine of its own while there is nothing to do, but for what it does not
// share with others (Deps).
type Running struct {
	agent   *Agent
	ctx     context.Context //nolint:containedctx // that of Start, without its end: for TearDown
	parts   *parts
	stop    context.CancelFunc
	wg      sync.WaitGroup // goroutines that are not shared
	entries []*timetable.Entry
	cancels []func() // of subscriptions
}

// Start brings the agent to work and returns when the node is registered and takes pods. It tries again what fails,
// until ctx ends. The agent works until Stop is called or ctx ends; Stop must be called in both cases.
func (a *Agent) Start(ctx context.Context) (*Running, error) {
	inner, stop := context.WithCancel(ctx)
	r := &Running{agent: a, ctx: context.WithoutCancel(ctx), stop: stop}
	if err := r.start(inner); err != nil {
		r.halt()
		if r.parts != nil {
			r.parts.close()
		}
		return nil, err
	}
	return r, nil
}

func (r *Running) start(ctx context.Context) error {
	a := r.agent
	services, synced := a.services(ctx, &r.wg)
	p, err := a.build(r.ctx, services)
	if err != nil {
		return err
	}
	r.parts = p
	a.mu.Lock()
	a.parts = p
	a.mu.Unlock()
	if err := a.until(ctx, "reach the container runtime", func() error { _, err := p.reporter.Inspect(ctx); return err }); err != nil {
		return err
	}
	if err := p.images.Recover(ctx); err != nil {
		a.deps.Logger.Warn("could not bring the records of image pulls up to date", "err", err)
	}
	if a.cfg.PodCIDR != "" {
		if _, err := p.cri.UpdateRuntimeConfig(ctx, &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
			NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: a.cfg.PodCIDR}}}); err != nil {
			a.deps.Logger.Debug("the container runtime did not take the pod CIDR", "err", err)
		}
	}
	if a.cfg.Port >= 0 {
		srv, err := a.listen(p)
		if err != nil {
			return err
		}
		r.wg.Go(func() { _ = srv.Run(ctx) })
	}
	p.reporter.Event(corev1.EventTypeNormal, "Starting", "Starting kubelet.") // KLT-32

	table := a.deps.Table
	if table == nil {
		table = timetable.New(0)
		r.wg.Go(func() { table.Run(ctx) })
	}
	add := func(first time.Duration, task timetable.Task) *timetable.Entry {
		e := table.Add(ctx, first, task)
		r.entries = append(r.entries, e)
		return e
	}
	r.follow(ctx, add(0, p.pleg.Round))
	select {
	case <-p.pleg.Listed():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := a.until(ctx, "register with the API", func() error { return p.reporter.Register(ctx) }); err != nil {
		return err
	}
	p.status.Start(ctx)
	beat := heartbeat.New(heartbeat.Config{Name: a.cfg.NodeName, Duration: a.cfg.LeaseDuration, Renew: a.cfg.LeaseRenew},
		a.deps.Client.CoordinationV1(), p.reporter.Object, a.deps.Logger)
	add(0, beat.Renew)
	select {
	case <-synced: // environments need services
	case <-ctx.Done():
		return ctx.Err()
	}
	source := a.deps.Pods
	if source == nil {
		s := NewPodSource(a.deps.Client, a.cfg.NodeName)
		r.wg.Go(func() { _ = s.Run(ctx) })
		source = s
	}
	r.cancels = append(r.cancels, source.Subscribe(a.cfg.NodeName, handler{p}))
	r.wg.Go(func() {
		select {
		case <-source.Synced():
			p.pods.Begin()
		case <-ctx.Done():
		}
	})
	every := func(period time.Duration, what string, do func(context.Context) error) {
		add(period, func(ctx context.Context) time.Duration {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				a.deps.Logger.Warn("could not "+what, "err", err)
			}
			return period
		})
	}
	every(a.cfg.OrphanPeriod, "remove orphaned pods", func(ctx context.Context) error { return a.orphans(source, p) })
	every(a.cfg.ContainerGCPeriod, "collect containers", func(ctx context.Context) error {
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
			begun := time.Now()
			err := p.imageGC.Collect(ctx)
			if err == nil {
				err = p.images.Prune(p.imageGC.Images(), begun)
			}
			if err != nil {
				p.reporter.Event(corev1.EventTypeWarning, "ImageGCFailed", err.Error())
			}
			return err
		})
		every(logs.Period, "rotate logs", p.rotator.Rotate)
		every(a.cfg.StoragePeriod, "limit local storage", p.pods.LimitStorage)
	}
	if p.cgroups != nil && a.cfg.EnforceAllocatable {
		add(0, p.enforce)
	}
	if err := p.imageGC.Scan(ctx, time.Now()); err != nil && ctx.Err() == nil {
		a.deps.Logger.Warn("could not list images", "err", err)
	}
	round := add(0, p.reporter.Round)
	r.watch(ctx, round)
	if p.eviction != nil {
		p.poke = round.Poke
		add(0, p.eviction.Round)
	}
	close(a.ready)
	a.deps.Logger.Info("node is ready to take pods", "runtime", p.reporter.RuntimeName(), "port", a.port())
	return nil
}

// follow has the runtime's events wake the pods' workers, and the pods listed anew when some were missed.
func (r *Running) follow(ctx context.Context, relist *timetable.Entry) {
	p := r.parts
	wake := pleg.Listener{Changed: func(uid types.UID, at time.Time) { p.pods.Changed(uid, at) }, Missed: relist.Poke}
	if r.agent.deps.RuntimeEvents != nil {
		r.cancels = append(r.cancels, p.runtimeEvents.Subscribe(r.agent.cfg.NodeName, wake))
		return
	}
	r.cancels = append(r.cancels, p.runtimeEvents.Subscribe("", wake))
	r.wg.Go(func() { p.runtimeEvents.Run(ctx) })
}

// watch has the Node object followed, and its status written when somebody else changed it.
func (r *Running) watch(ctx context.Context, round *timetable.Entry) {
	reporter, nodes := r.parts.reporter, r.agent.deps.Nodes
	if nodes == nil {
		nodes = nodestatus.NewSource(r.agent.deps.Client, r.agent.cfg.NodeName)
		r.wg.Go(func() { nodes.Run(ctx) })
	}
	r.cancels = append(r.cancels, nodes.Subscribe(r.agent.cfg.NodeName, func(node *corev1.Node) {
		if reporter.Observe(node) {
			round.Poke()
		}
	}))
}

// halt ends everything but the pods' rounds under way.
func (r *Running) halt() {
	r.stop()
	for _, cancel := range r.cancels {
		cancel()
	}
	for _, e := range r.entries {
		e.Remove()
	}
	r.wg.Wait()
	if r.parts != nil {
		r.parts.status.Close()
	}
}

// Stop ends the agent's work and returns when nothing of it is under way any more.
func (r *Running) Stop() (err error) {
	r.stop()
	r.parts.pods.Close()
	r.halt()
	if r.agent.cfg.TearDownOnStop {
		ctx, cancel := context.WithTimeout(r.ctx, 2*r.agent.cfg.ShutdownGracePeriod+30*time.Second)
		defer cancel()
		err = r.parts.tearDown(ctx, r.agent.cfg.ShutdownGracePeriod)
	} else if r.parts.cgroups != nil {
		r.parts.cgroups.Leave() // where no pod goes on
	}
	r.parts.close()
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

// orphans stops what the runtime has of pods that the API does not have, and clears away pods that are nowhere any
// more.
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
			errs = append(errs, p.pods.Clear(uid))
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
	return p.tearDown(ctx, a.cfg.ShutdownGracePeriod)
}

func (a *Agent) listen(p *parts) (*server.Server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(a.cfg.Address, fmt.Sprint(a.cfg.Port)))
	if err != nil {
		return nil, fmt.Errorf("node %s: kubelet server: %w; choose another port or 0 for a free one", a.cfg.NodeName, err)
	}
	a.mu.Lock()
	a.listener = l
	a.mu.Unlock()
	var remove func(context.Context, string) error
	if !a.cfg.SkipVolumes {
		remove = p.volumes.RemoveLocalVolume
	}
	return server.New(server.Config{NodeName: a.cfg.NodeName, TLS: a.deps.ServingCert, ClientCAs: a.deps.ClientCAs, Revoked: a.deps.Revoked, APIClients: a.cfg.APIClients, RootDir: a.cfg.RootDir, Settings: a.cfg.settings()},
		server.Deps{Listener: l, Client: a.deps.Client, CRI: p.cri, Pods: p.pods, Status: p.status, Node: p.reporter, Healthy: p.pleg.Healthy, RemoveLocalVolume: remove, Logger: a.deps.Logger}), nil
}

func imageFS(ctx context.Context, client *cri.Client) (image.FS, error) {
	path, err := imageFSPath(ctx, client)
	if err != nil {
		return image.FS{}, err
	}
	capacity, available, _, _, err := nodestatus.Disk(path)
	if err != nil {
		return image.FS{}, err
	}
	return image.FS{Capacity: capacity, Used: capacity - available}, nil
}

// imageFSPath is a path of the file system of images and writable layers.
func imageFSPath(ctx context.Context, client *cri.Client) (string, error) {
	info, err := client.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", err
	}
	if len(info.ImageFilesystems) == 0 || info.ImageFilesystems[0].FsId == nil {
		return "", errors.New("the container runtime names no image file system")
	}
	return info.ImageFilesystems[0].FsId.Mountpoint, nil
}
