package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/node"
	"pintle.dev/pintle/kernel/node/hollow"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/sdk/footprint"
	"pintle.dev/pintle/sdk/runtime"
)

const (
	// askTimeout is how long the questions before the start may take.
	askTimeout = 30 * time.Second
	// stopTimeout is how long the runtime, and giving the names up, may take at the end.
	stopTimeout = 30 * time.Second
	// runtimeCheck is how often the runtime plugin is asked whether it still serves.
	runtimeCheck = 5 * time.Second
	// kubeletVersion is what the nodes say that they are.
	kubeletVersion = "v1.36.3+pintle"
)

// Run runs hollow nodes until ctx ends, which is no error, or until they cannot go on.
func Run(ctx context.Context, o Options) (err error) {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if err := o.check(); err != nil {
		return err
	}
	p := &process{Options: o, base: o.clientConfig()}
	if p.client, err = kubernetes.NewForConfig(p.base); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	begin := time.Now()
	if err := p.ask(ctx); err != nil {
		return stopped(ctx, err)
	}
	owned := &names{client: p.client, name: o.Name, nodes: o.Nodes, holder: newHolder(), logger: o.Logger, say: o.Progress}
	if err := owned.claim(ctx); err != nil {
		return stopped(ctx, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, owned.release(ctx))
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	// Pods that come and go are garbage, beside little that is alive.
	wg.Go(func() { footprint.Keep(ctx, footprint.Options{Spacious: true}) })
	wg.Go(func() {
		if err := owned.keep(ctx); err != nil {
			cancel(err)
		}
	})
	if err := stopped(ctx, p.run(ctx, begin)); err != nil {
		return err
	}
	return lost(ctx)
}

// stopped is nil where an error only says that ctx ended.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return lost(ctx)
	}
	return err
}

// lost is why ctx ended, if that is more than a stop that was asked for.
func lost(ctx context.Context) error {
	var other lostError
	if errors.As(context.Cause(ctx), &other) {
		return other
	}
	return nil
}

// process is one run.
type process struct {
	Options
	base   *rest.Config
	client kubernetes.Interface
}

// clientConfig is the kubeconfig's user, with the options of requests.
func (o *Options) clientConfig() *rest.Config {
	cfg := rest.CopyConfig(o.Cluster)
	cfg.QPS, cfg.Burst = o.QPS, o.Burst
	if o.ContentType != "" {
		cfg.ContentType = o.ContentType
		cfg.AcceptContentTypes = o.ContentType + "," + kruntime.ContentTypeJSON
	}
	return cfg
}

// identity is a node's own client: the kubeconfig's user in that node's name.
func (p *process) identity(name string) *rest.Config {
	cfg := rest.CopyConfig(p.base)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: nodeUser(name), Groups: []string{nodesGroup}}
	return cfg
}

func (p *process) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	first := p.Name + "-0"
	as, err := kubernetes.NewForConfig(p.identity(first))
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return mayRun(ctx, p.base.Host, p.client, as, first, leaseName(p.Name))
}

// run starts the runtime and the nodes, and stops them in reverse.
func (p *process) run(ctx context.Context, begin time.Time) (err error) {
	if err := removeLeft(os.TempDir()); err != nil {
		p.Logger.Warn("could not remove what hollow nodes left that were killed", "error", err)
	}
	own, err := newFolder(os.TempDir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.remove()) }()
	dir := own.path
	host, err := plugin.New(plugin.Config{
		Directories: p.PluginDirectories, RunDirectory: filepath.Join(dir, "r"),
		Bundles:  []plugin.BundleConfig{{Name: p.Runtime, Privileged: true}},
		Runtimes: []string{p.Runtime},
	}, plugin.Deps{Log: p.Logger})
	if err != nil {
		return fmt.Errorf("runtime plugin %s: %w", p.Runtime, err)
	}
	// The plugin outlives the nodes, which speak to it until they have stopped.
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- host.Run(serving) }()
	defer func() {
		end()
		err = errors.Join(err, <-ended)
	}()
	select {
	case <-host.Ready():
	case fault := <-ended:
		ended <- nil
		return errors.Join(fault, fmt.Errorf("runtime plugin %s did not start", p.Runtime))
	case <-ctx.Done():
		return ctx.Err()
	}
	r, err := host.Runtime(p.Runtime)
	if err != nil {
		return fmt.Errorf("runtime plugin %s: %w", p.Runtime, err)
	}
	options := runtime.Options{Name: p.Runtime, DataDirectory: filepath.Join(dir, "d"), StateDirectory: filepath.Join(dir, "s")}
	for _, d := range []string{options.DataDirectory, options.StateDirectory} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	endpoint, err := r.Start(ctx, options)
	if err != nil {
		return fmt.Errorf("runtime plugin %s: %w", p.Runtime, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(serving, stopTimeout)
		defer cancel()
		err = errors.Join(err, r.Stop(ctx, false))
	}()
	p.Progress("runtime    %s: %s", endpoint.Version, endpoint.Message)
	return p.runNodes(ctx, r, endpoint.Socket, filepath.Join(dir, "n"), begin)
}

// runNodes runs the nodes until ctx ends, and keeps the runtime serving.
func (p *process) runNodes(ctx context.Context, r runtime.Runtime, socket, root string, begin time.Time) error {
	nodes, err := hollow.New(ctx, hollow.Config{
		Prefix: p.Name + "-", Nodes: p.Nodes, Labels: p.Labels, Taints: p.Taints, Capacity: p.Capacity,
		RuntimeName: p.Runtime, KubeletVersion: kubeletVersion, RootDir: root,
		LeaseDuration: p.LeaseDuration, StatusReport: p.StatusReport, StartRate: p.StartRate, Limits: hollow.Apart,
	}, hollow.Deps{
		Socket: socket, Admin: p.client, Identity: p.identity,
		Pods: node.NewPodSource(p.client, ""), Nodes: nodestatus.NewSharedSource(p.hollowNodes()), Logger: p.Logger,
	})
	if err != nil {
		return err
	}
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- nodes.Run(ctx, started) }()
	tick := time.NewTicker(runtimeCheck)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-started:
			p.Progress("nodes      %s-0 to %s-%d at %s", p.Name, p.Name, p.Nodes-1, p.base.Host)
			p.Progress("ready in %d ms", time.Since(begin).Milliseconds())
			started = nil
		case <-tick.C:
			// A plugin's process that was started again serves from this call on.
			if _, err := r.Status(ctx); err != nil && ctx.Err() == nil {
				p.Logger.Warn("runtime is not ready", "error", err)
			}
		}
	}
}

// hollowNodes watches the Node objects of all hollow nodes.
func (p *process) hollowNodes() cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
			o.LabelSelector = hollow.Label
			return p.client.CoreV1().Nodes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = hollow.Label
			return p.client.CoreV1().Nodes().Watch(ctx, o)
		},
	}, p.client)
}
