package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/audit"
	"pintle.dev/pintle/kernel/api/auth/authentication"
	"pintle.dev/pintle/kernel/api/storage"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/demand"
	"pintle.dev/pintle/kernel/features"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/node/oomscore"
	"pintle.dev/pintle/kernel/nodepart"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/recorder"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/shadow"
	"pintle.dev/pintle/sdk/footprint"
)

// Options are what a kernel is given beside its configuration.
type Options struct {
	Logger *slog.Logger
	// Level is the logger's, changed when the configuration's is. May be nil.
	Level *slog.LevelVar
	// Progress is called for each step of the start, from several goroutines;
	// may be nil.
	Progress func(Step)
	// Stopping is called when a stop or a failure begins, perhaps twice; may be nil.
	Stopping func()
	// Executable is the path of the running binary; plugins are looked for
	// beside it where the configuration names no directory.
	Executable string
}

// Kernel is one kernel.
type Kernel struct {
	log      *slog.Logger
	level    *slog.LevelVar
	progress func(Step)
	stopping func()
	begin    time.Time
	exe      string

	mu  sync.Mutex
	cfg *config.Config

	dirs    directories
	parts   *parts.Parts
	api     *api.Server
	host    *plugin.Host
	inspect *inspect.Mux
	// scheduling is the scheduler that runs in this kernel, or nil.
	scheduling atomic.Pointer[scheduler.Scheduler]
	// profilesMu is held while it is given its profiles.
	profilesMu sync.Mutex
	// schedulerStarted: this kernel has a scheduler, or one that waits to lead.
	schedulerStarted atomic.Bool
	// schedulerMetrics outlive it.
	schedulerMetrics *scheduler.Metrics
	eventMetrics     *recorder.Metrics
	simulating       *semaphore.Weighted // one simulation at a time
	// shadows runs candidates of plugins beside it; nil before the start.
	shadows atomic.Pointer[shadow.Manager]
	// oomScore is this process's score for the out-of-memory killer.
	oomScore int
	// node is this machine's, or nil.
	node atomic.Pointer[nodepart.Part]
	ids  *identities
	// reviewed are the admission plugins that the API server was last handed.
	reviewed atomic.Pointer[reviewed]
	ready    chan struct{}
	// catalog has the installed bundles.
	catalog *catalog.Catalog
	// installed is the lock by which they are loaded; mu guards it.
	installed *catalog.Lock
	// maintenance is what the API server is given for operators of the store.
	maintenance struct {
		handler    http.Handler
		collectors []prometheus.Collector
	}

	// demand knows which controllers of controllers.onDemand were asked for.
	demand demand.Follower

	// tracing makes spans; nil: there are none.
	tracing trace.TracerProvider

	// resting is what drops memory when the kernel comes to rest; nil before the
	// storage is open, and where it has nothing to drop.
	resting atomic.Pointer[storage.Backend]
	atRest  chan struct{} // has room for one: machine code is let go of

	// shared: other kernels may work on the same store. holder names this one
	// in Leases.
	shared bool
	holder string
	dutyMu sync.Mutex
	duties [duties]bool
	hostMu sync.Mutex // held while the host is reconfigured
}

var errNoUsers = errors.New("plugins.uidRange: empty, so that processes of plugins would run as root, to whom the cluster's keys belong; want a range of user ids that nobody has, such as 60706-61183")

// New checks everything that can be checked without starting anything: data
// directory, plugins, ports' form. It opens the store, which another kernel on
// the same directory prevents.
func New(cfg *config.Config, o Options) (_ *Kernel, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	if o.Stopping == nil {
		o.Stopping = func() {}
	}
	k := &Kernel{
		log: o.Logger, level: o.Level, progress: o.Progress, stopping: o.Stopping, begin: time.Now(), exe: o.Executable,
		cfg: cfg, parts: parts.New(o.Logger), ready: make(chan struct{}), atRest: make(chan struct{}, 1),
		shared: cfg.Store.Backend == config.BackendEtcd, holder: newHolder(),
		inspect: inspect.New(), simulating: semaphore.NewWeighted(1), schedulerMetrics: scheduler.NewMetrics(), eventMetrics: recorder.NewMetrics(),
	}
	if os.Geteuid() == 0 && cfg.Plugins.UIDRange == "" {
		return nil, errNoUsers
	}
	if k.dirs, err = prepareDirectories(cfg.DataDir, os.Geteuid() == 0 && cfg.Plugins.UIDRange != ""); err != nil {
		return nil, err
	}
	if err := k.dirs.closeToOthers(k.log); err != nil {
		return nil, err
	}
	// Plugins are checked before the store is opened: a missing plugin should
	// cost nothing.
	if err := k.openCatalog(cfg); err != nil {
		return nil, err
	}
	k.ids = newIdentities(k)
	client := new(lateConfig)
	if k.host, err = plugin.New(k.hostConfig(cfg), plugin.Deps{
		Log: k.log.With("part", "plugins"), REST: client.config(), Identity: k.ids.open, Release: k.ids.release, Bundles: k.catalog,
		ServesGroup: func(group string) bool { return k.api.ServesGroup(group) },
	}); err != nil {
		return nil, located(cfg, err)
	}
	k.parts.Start("machine code", k.letGoOfCode, nil)
	k.parts.Start("footprint", func(ctx context.Context) error {
		footprint.Keep(ctx, footprint.Options{AtRest: []func(){k.rest}, Garbage: uint64(cfg.Memory.Garbage), Spacious: true, Started: k.ready})
		return nil
	}, nil)
	if err := k.startTracing(cfg); err != nil {
		return nil, errors.Join(err, k.parts.Stop())
	}
	if err := features.Use(cfg.Features); err != nil {
		return nil, errors.Join(err, k.parts.Stop())
	}
	backend, err := k.openStorage(cfg)
	if err != nil {
		return nil, errors.Join(err, k.parts.Stop())
	}
	podSecurity, err := podSecurity(cfg)
	if err != nil {
		return nil, errors.Join(err, k.parts.Stop())
	}
	eventRateLimit, err := eventRateLimit(cfg)
	if err != nil {
		return nil, errors.Join(err, k.parts.Stop())
	}
	k.api, err = api.New(api.Config{
		EnableAdmission: cfg.Admission.Enable, DisableAdmission: cfg.Admission.Disable, AdmissionConfig: cfg.Admission.Config, PodSecurity: podSecurity, EventRateLimit: eventRateLimit,
		DataDir: cfg.DataDir, BindAddress: cfg.API.BindAddress, Port: cfg.API.Port,
		StoreHandler: k.maintenance.handler, InspectHandler: k.inspect, ConfigzHandler: http.HandlerFunc(k.configz), Collectors: append(k.maintenance.collectors, k.host.Collector(), k.schedulerMetrics, k.eventMetrics), Metrics: k.host.Metrics, Tracing: k.tracing, Admission: k,
		AdvertiseAddress: cfg.API.AdvertiseAddress, ServiceCIDR: cfg.API.ServiceCIDR, NodePortRange: cfg.API.NodePortRange,
		MaxInFlight: cfg.API.MaxInflight, MaxMutatingInFlight: cfg.API.MaxMutatingInflight, NoPriorityAndFairness: !cfg.API.Fairness, Limits: apiLimits(cfg.API), Audit: auditOptions(cfg), MaxTokenExpiration: cfg.Auth.MaxTokenExpiration, ClusterSigningDuration: cfg.Auth.SigningDuration, ServiceAccountKeyFiles: cfg.Auth.KeyFiles,
		Authentication: waysIn(cfg.Auth), BootstrapTokens: cfg.Auth.BootstrapTokens, AuthorizationConfig: cfg.Auth.AuthorizationConfig,
		Plugins: k.host, PluginServers: k.host.APIServers(), PluginHost: hostIdentity.Name, RuntimeConfig: cfg.API.RuntimeConfig, Flags: func() map[string]string { return config.Flags(k.config()) },
		RouteToEndpoints: !cfg.Node.Enabled || len(cfg.Node.Proxies) == 0,
		Backend:          backend, EncryptionConfig: cfg.Store.EncryptionConfig, Logger: k.log.With("part", "api"), Failing: k.stopping,
	})
	if err != nil {
		return nil, errors.Join(err, k.parts.Stop())
	}
	if err := k.shareAuthority(); err != nil {
		return nil, errors.Join(err, k.parts.Stop())
	}
	client.set(k.api.ClientConfig(hostIdentity))
	k.registerInspections()
	return k, nil
}

// hostIdentity is who the plugin host writes as; the scheduler and the node
// agent have identities of their own.
var (
	hostIdentity      = &user.DefaultInfo{Name: "system:pintle:plugin-host", Groups: []string{user.SystemPrivilegedGroup}}
	schedulerIdentity = &user.DefaultInfo{Name: "system:kube-scheduler"}
	proxyIdentity     = &user.DefaultInfo{Name: "system:kube-proxy"}
)

func nodeIdentity(name string) user.Info {
	return &user.DefaultInfo{Name: "system:node:" + name, Groups: []string{"system:nodes"}}
}

func auditOptions(cfg *config.Config) audit.Options {
	log := cfg.Audit.LogPath
	if log != "" && !filepath.IsAbs(log) {
		log = filepath.Join(cfg.DataDir, log)
	}
	return audit.Options{
		PolicyFile: cfg.Audit.PolicyFile, WebhookConfig: cfg.Audit.Webhook,
		LogPath: log, MaxSize: int64(cfg.Audit.LogMaxSize), MaxBackups: cfg.Audit.LogMaxBackups, MaxAge: cfg.Audit.LogMaxAge,
	}
}

func waysIn(cfg config.Auth) authentication.Files {
	return authentication.Files{
		Config: cfg.AuthenticationConfig, ClientCAs: cfg.ClientCAFiles, Tokens: cfg.TokenFile,
		Webhook: authentication.Webhook{File: cfg.TokenWebhook.ConfigFile, Version: cfg.TokenWebhook.Version, TTL: cfg.TokenWebhook.CacheTTL},
		FrontProxy: authentication.FrontProxy{
			CAFile: cfg.RequestHeader.ClientCAFile, AllowedNames: cfg.RequestHeader.AllowedNames,
			UsernameHeaders: cfg.RequestHeader.UsernameHeaders, UIDHeaders: cfg.RequestHeader.UIDHeaders,
			GroupHeaders: cfg.RequestHeader.GroupHeaders, ExtraHeaderPrefixes: cfg.RequestHeader.ExtraHeaderPrefixes,
		},
	}
}

func apiLimits(cfg config.API) api.Limits {
	return api.Limits{
		Connections: cfg.MaxConnections, ConnectionsPerUser: cfg.MaxUserConnections, ConnectionsPerSource: cfg.MaxPeerConnections,
		Watches: cfg.MaxWatches, WatchesPerUser: cfg.MaxUserWatches, Bodies: int64(cfg.MaxBodies),
	}
}

// Ready is closed when /readyz is ok and every plugin has started.
func (k *Kernel) Ready() <-chan struct{} { return k.ready }

// AdminKubeconfig is the path of the administrator's kubeconfig.
func (k *Kernel) AdminKubeconfig() string { return k.api.AdminKubeconfig() }

// URL is the API server's address.
func (k *Kernel) URL() string { return k.api.URL() }

func (k *Kernel) step(name, format string, args ...any) {
	k.progress(Step{Name: name, Detail: fmt.Sprintf(format, args...), Took: time.Since(k.begin)})
}

// Run runs the kernel until ctx ends or a part of it fails, and returns when
// everything has stopped.
func (k *Kernel) Run(ctx context.Context) error {
	err := k.run(ctx)
	k.stopping()
	if stopErr := k.parts.Stop(); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stop: %w", stopErr))
	}
	return errors.Join(err, k.dirs.remove())
}

func (k *Kernel) run(ctx context.Context) error {
	k.recallPlugins(ctx)
	// What is started from here on inherits the score, but for what is given another.
	if cfg := k.config(); cfg.Node.Enabled && os.Geteuid() == 0 {
		var err error
		if k.oomScore, err = oomscore.Protect(); err != nil {
			k.log.Warn("pods are ended before this kernel when memory runs out, but not before other processes of its size", "error", err)
		}
	}
	k.parts.Start("api server", k.api.Run, nil)
	// The plugin host loads its modules while the API comes up; what it writes
	// to the API it writes when the API answers.
	k.parts.Start("plugins", k.host.Run, k.ids.close)
	if err := k.await(ctx, k.api.Ready()); err != nil {
		return err
	}
	k.step("api", "%s", k.api.URL())
	cfg := k.config()
	if signs(cfg) && !k.shared {
		k.parts.Start("certificate signer", k.api.SignRequests, nil)
	}
	schedules := cfg.Scheduler.Enabled && len(cfg.Scheduler.Profiles) > 0
	k.schedulerStarted.Store(schedules)
	if schedules && !k.shared {
		if err := k.startScheduler(cfg); err != nil {
			return err
		}
	}
	if err := k.await(ctx, k.host.Ready()); err != nil {
		return err
	}
	if k.shared {
		// Who leads feeds plugins and starts controllers; they have to be there.
		if schedules {
			if err := k.startScheduler(cfg); err != nil {
				return err
			}
		}
		k.startControllers(cfg)
	}
	k.parts.Start("plugin lock", k.watchLock, nil)
	if schedules {
		if err := k.startShadows(); err != nil {
			return err
		}
	}
	// Who asks for the plugins from now on is told of all of them.
	if err := k.await(ctx, k.host.Announced()); err != nil {
		return err
	}
	k.step("plugins", "%s", k.pluginSummary())
	k.demand.Use(wants(k.config()))
	if err := k.startOnDemand(); err != nil {
		return err
	}
	close(k.ready)
	// A node that is given its range of pod IPs may wait for it for good, so it comes last.
	waits := cfg.Node.PodCIDR == ""
	if cfg.Node.Enabled && !waits {
		if err := k.startNode(ctx, cfg); err != nil {
			return err
		}
	}
	if cfg.Hollow.Nodes > 0 {
		if err := k.startHollow(ctx, cfg); err != nil {
			return err
		}
	}
	if cfg.Node.Enabled && waits {
		if err := k.startNode(ctx, cfg); err != nil {
			return err
		}
	}
	return k.await(ctx, nil)
}

// await waits for ready; with nil, for the end. It returns nil at the end that
// ctx brings, and the fault when a part failed.
func (k *Kernel) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case err := <-k.parts.Failed():
		return err
	case <-ctx.Done():
		if ready == nil {
			return nil
		}
		return context.Cause(ctx)
	}
}

func (k *Kernel) config() *config.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cfg
}

// Reconfigure applies what a changed configuration can change while the kernel
// runs: log level, plugin bundles, profiles, weights, controllers. Everything
// else waits for the next start.
func (k *Kernel) Reconfigure(_ context.Context, next *config.Config, changes []config.Change) {
	var plugins bool
	var nodeKeys []string
	for _, c := range changes {
		if !c.Live {
			continue
		}
		if c.Key == "logging.level" {
			if k.level != nil {
				k.level.Set(Level(next.Logging.Level))
			}
			k.log.Info("configuration applied", "key", c.Key, "value", next.Logging.Level)
			continue
		}
		if strings.HasPrefix(c.Key, "node.") {
			nodeKeys = append(nodeKeys, c.Key)
			continue
		}
		plugins = true
	}
	k.mu.Lock()
	merged := *k.cfg
	merged.Logging.Level = next.Logging.Level
	merged.Plugins.Bundles, merged.Plugins.CallTimeout = next.Plugins.Bundles, next.Plugins.CallTimeout
	merged.Scheduler.Profiles, merged.Control = next.Scheduler.Profiles, next.Control
	merged.Admission.Enabled, merged.APIServers, merged.Cloud = next.Admission.Enabled, next.APIServers, next.Cloud
	merged.Node = k.cfg.Node.WithLive(next.Node)
	k.mu.Unlock()
	k.adopt(&merged, next, plugins, nodeKeys, func() {
		k.demand.Use(wants(&merged))
		k.setProfiles()
		if merged.Scheduler.Enabled && len(merged.Scheduler.Profiles) > 0 && !k.schedulerStarted.Load() {
			k.log.Warn("the kernel started without a scheduler profile, so no scheduler runs; restart it for those of scheduler.profiles")
		}
	})
}

// adopt takes a merged configuration over: the node's live keys, then the plugins, which
// may refuse it. It is in force after that, and then is called. next is where it comes
// from, for the lines of faults.
func (k *Kernel) adopt(merged, next *config.Config, plugins bool, nodeKeys []string, then func()) {
	if len(nodeKeys) > 0 {
		k.reconfigureNode(merged, nodeKeys)
	}
	if plugins {
		k.hostMu.Lock()
		defer k.hostMu.Unlock()
		if err := k.host.Reconfigure(k.hostConfig(merged)); err != nil {
			k.log.Error("configuration of plugins not applied; the former one stays in force", "error", located(next, err))
			return
		}
		k.log.Info("configuration applied", "plugins", k.pluginSummary())
	}
	k.mu.Lock()
	k.cfg = merged
	k.mu.Unlock()
	then()
}

// Level is the slog level of a configured word.
func Level(word string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(word)); err != nil {
		return slog.LevelInfo
	}
	return l
}

// client returns a typed client of this process with an identity.
func (k *Kernel) client(u user.Info) (kubernetes.Interface, *rest.Config, error) {
	cfg := k.api.ClientConfig(u)
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("client of %s: %w", u.GetName(), err)
	}
	return c, cfg, nil
}

// directories is where the kernel keeps things.
type directories struct {
	data, store, plugins, pods, logs, run string
	// shared is where plugins with a user of their own have their sockets: every
	// user may pass through it. Empty when there are none.
	shared string
}

// public is the folder that every plugin may read; empty when none has a user of its own.
func (d directories) public() string {
	if d.shared == "" {
		return ""
	}
	return filepath.Join(d.shared, "public")
}

// maxSocketDir leaves room for a socket's name within the 108 bytes that a
// path of a unix socket may have.
const maxSocketDir = 60

func storeDir(data string) string { return filepath.Join(data, "store") }

func prepareDirectories(data string, users bool) (directories, error) {
	d := directories{
		data: data, store: storeDir(data), plugins: filepath.Join(data, "plugins"),
		pods: filepath.Join(data, "node"), logs: filepath.Join(data, "node", "logs"), run: filepath.Join(data, "run"),
	}
	if len(d.run) > maxSocketDir {
		d.run = filepath.Join(os.TempDir(), "pintle-"+shortHash(data))
	}
	for _, dir := range []string{d.data, d.store, d.plugins, d.pods, d.run} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return d, fmt.Errorf("data directory: %w; choose another one with --data", err)
		}
	}
	for _, dir := range []string{d.data, d.run} {
		// The name of a run directory outside of data can be foreseen: a user of
		// this machine may have made it, to put sockets of their own into it.
		if err := keptFromOthers(dir, dir == d.run && filepath.Dir(d.run) != d.data); err != nil {
			return d, fmt.Errorf("data directory: %w; choose another one with --data", err)
		}
	}
	if users {
		// Nobody but root makes folders there.
		parent := "/run"
		if info, err := os.Stat(parent); err != nil || !info.IsDir() {
			parent = os.TempDir()
		}
		d.shared = filepath.Join(parent, "pintle-plugins-"+shortHash(data))
		if err := os.Mkdir(d.shared, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
			return d, fmt.Errorf("folder of plugins' sockets: %w", err)
		}
		info, err := os.Lstat(d.shared)
		if err != nil {
			return d, fmt.Errorf("folder of plugins' sockets: %w", err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() {
			return d, fmt.Errorf("folder of plugins' sockets: %s was not made by this user; remove it", d.shared)
		}
		if err := os.MkdirAll(d.public(), 0o755); err != nil {
			return d, fmt.Errorf("folder of plugins' sockets: %w", err)
		}
		if err := errors.Join(os.Chmod(d.shared, 0o711), os.Chmod(d.public(), 0o755)); err != nil {
			return d, fmt.Errorf("folder of plugins' sockets: %w", err)
		}
	}
	return d, nil
}

// guarded are the folders that no pod may see.
func (d directories) guarded() []string {
	dirs := []string{d.data}
	if filepath.Dir(d.run) != d.data {
		dirs = append(dirs, d.run)
	}
	if d.shared != "" {
		dirs = append(dirs, d.shared)
	}
	return dirs
}

// keptFromOthers returns an error when other users could change what is in dir;
// with owned, also when dir is not this user's alone.
func keptFromOthers(dir string, owned bool) error {
	stat := os.Stat
	if owned {
		stat = os.Lstat
	}
	info, err := stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if owned && (!info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0) {
		return fmt.Errorf("%s was not made by this user for itself alone", dir)
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%s can be written by every user: chmod o-w it", dir)
	}
	return nil
}

// remove takes away what a stopped kernel has no use for.
func (d directories) remove() error {
	if d.shared != "" {
		if err := os.RemoveAll(d.shared); err != nil {
			return fmt.Errorf("remove %s: %w", d.shared, err)
		}
	}
	entries, err := os.ReadDir(d.run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", d.run, err)
	}
	kept := false
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), nodepart.RuntimeState) {
			// A folder in which nothing is left belongs to nobody.
			kept = os.Remove(filepath.Join(d.run, e.Name())) != nil || kept
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.run, e.Name())); err != nil {
			return fmt.Errorf("remove %s: %w", d.run, err)
		}
	}
	if kept {
		return nil
	}
	if err := os.Remove(d.run); err != nil {
		return fmt.Errorf("remove %s: %w", d.run, err)
	}
	return nil
}
