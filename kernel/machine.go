package kernel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/features"
	"pintle.dev/pintle/kernel/join"
	"pintle.dev/pintle/kernel/node/oomscore"
	"pintle.dev/pintle/kernel/nodepart"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/pluginaccess"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	"pintle.dev/pintle/sdk/footprint"
)

// MachineOptions are what a machine without a kernel is given beside its configuration.
type MachineOptions struct {
	Options
	// Join says which cluster to join; nil: the machine has joined, or has Kubeconfig.
	Join *join.Argument
	// JoinTimeout is how long joining may take.
	JoinTimeout time.Duration
	// Kubeconfig has the identity of the node; nil: the machine joins, or has joined.
	Kubeconfig *rest.Config
	// ClientCA is PEM, with Kubeconfig: the authorities of the node's clients; nil: those that
	// the API server names.
	ClientCA []byte
}

// Machine is a node whose kernel runs elsewhere: the plugin host with the node's plugins, and
// the node, by the network API. It has neither store nor API, and writes no Plugin objects.
type Machine struct {
	// k has the folders, the plugin host and the configuration, and nothing of a kernel.
	k    *Kernel
	o    MachineOptions
	lock *os.File

	// access has the plugins' ways to the API; known is closed when the machine has credentials.
	access      *identities
	credentials *join.Credentials
	known       chan struct{}
}

// machineLock is held by the process that runs with a data directory.
const machineLock = "node.lock"

// NewMachine checks everything that can be checked without starting anything.
func NewMachine(cfg *config.Config, o MachineOptions) (_ *Machine, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	if o.Stopping == nil {
		o.Stopping = func() {}
	}
	if err := checkMachine(cfg); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 && cfg.Plugins.UIDRange == "" {
		return nil, errNoUsers
	}
	k := &Kernel{
		log: o.Logger, level: o.Level, progress: o.Progress, stopping: o.Stopping, begin: time.Now(), exe: o.Executable,
		cfg: cfg, parts: parts.New(o.Logger), ready: make(chan struct{}),
	}
	m := &Machine{k: k, o: o, known: make(chan struct{})}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "pki", "ca.key")); err == nil {
		return nil, fmt.Errorf("data directory: %s is a kernel's; choose another one with --data", cfg.DataDir)
	}
	if k.dirs, err = prepareDirectories(cfg.DataDir, os.Geteuid() == 0); err != nil {
		return nil, err
	}
	if m.lock, err = lockMachine(cfg.DataDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.lock.Close())
		}
	}()
	if err := k.dirs.closeToOthers(k.log); err != nil {
		return nil, err
	}
	if err := k.openCatalog(cfg); err != nil {
		return nil, err
	}
	if err := features.Use(cfg.Features); err != nil {
		return nil, err
	}
	m.access = m.pluginAccess()
	if k.host, err = plugin.New(k.hostConfig(cfg), plugin.Deps{
		Log: k.log.With("part", "plugins"), Bundles: k.catalog, Identity: m.access.open, Release: m.access.release,
	}); err != nil {
		return nil, located(cfg, err)
	}
	return m, nil
}

// lockMachine makes sure that one process runs with a data directory.
func lockMachine(dir string) (*os.File, error) {
	path := filepath.Join(dir, machineLock)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: another pintle node runs with %s: %w", dir, err), file.Close())
	}
	return file, nil
}

// checkMachine names what a configuration asks for that only a kernel does.
func checkMachine(cfg *config.Config) error {
	var faults config.Faults
	refuse := func(wrong bool, text string, path ...string) {
		if wrong {
			faults = append(faults, cfg.FaultAt(path, text))
		}
	}
	const elsewhere = "runs where a kernel does; pintle node takes the node alone, so leave it out"
	refuse(!cfg.Node.Enabled, "is false; pintle node runs nothing else", "node", "enabled")
	refuse(cfg.Node.PodCIDR != "", "want it empty: the node has the range that its Node object is given, such as by the controller nodeipam", "node", "podCIDR")
	refuse(len(cfg.Control.Enabled) > 0, elsewhere, "controllers", "enabled")
	refuse(len(cfg.Control.OnDemand) > 0, elsewhere, "controllers", "onDemand")
	refuse(len(cfg.Scheduler.Profiles) > 0, elsewhere, "scheduler", "profiles")
	refuse(len(cfg.Admission.Enabled) > 0, elsewhere, "admission", "enabled")
	refuse(len(cfg.APIServers.Enabled) > 0, elsewhere, "apiServers", "enabled")
	refuse(cfg.Cloud.Provider != "", elsewhere, "cloud", "provider")
	refuse(cfg.Hollow.Nodes > 0, "are for a kernel, or pintle hollow", "hollow", "nodes")
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// Ready is closed when the node takes pods.
func (m *Machine) Ready() <-chan struct{} { return m.k.ready }

// Run runs the node until ctx ends or a part of it fails, and returns when everything has
// stopped. An API server that does not answer is waited for.
func (m *Machine) Run(ctx context.Context) error {
	err := m.run(ctx)
	m.k.stopping()
	if stopErr := m.k.parts.Stop(); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stop: %w", stopErr))
	}
	return errors.Join(err, m.k.dirs.remove(), m.lock.Close())
}

func (m *Machine) run(ctx context.Context) error {
	k := m.k
	cfg := k.config()
	if os.Geteuid() == 0 {
		var err error
		if k.oomScore, err = oomscore.Protect(); err != nil {
			k.log.Warn("pods are ended before this node when memory runs out, but not before other processes of its size", "error", err)
		}
	}
	k.parts.Start("footprint", func(ctx context.Context) error {
		footprint.Keep(ctx, footprint.Options{Garbage: uint64(cfg.Memory.Garbage), Started: k.ready})
		return nil
	}, nil)
	name, ips := nodepart.Name(cfg), nodepart.Addresses(cfg)
	credentials, err := m.credentialsOf(ctx, name)
	if err != nil {
		return err
	}
	m.credentials = credentials
	close(m.known)
	k.step("cluster", "%s", credentials.Server())
	revoked, err := credentials.Revocations()
	if err != nil {
		return err
	}
	k.parts.Start("certificates", credentials.Run, nil)
	k.parts.Start("revocations", credentials.Follow, nil)
	k.parts.Start("plugins", k.host.Run, m.access.close)
	if err := k.await(ctx, k.host.Ready()); err != nil {
		return err
	}
	k.step("plugins", "%s", k.pluginSummary())
	part, err := nodepart.New(nodepart.Config{
		Name: name, IPs: ips, Settings: k.config, KubeletVersion: api.GitVersion, OOMScore: k.oomScore,
		Data: k.dirs.data, Pods: k.dirs.pods, Logs: k.dirs.logs, Sockets: k.dirs.run, Guarded: k.dirs.guarded(),
	}, nodepart.Deps{
		Plugins: k.host, Client: credentials.Client(), Proxy: credentials.Client(), Step: k.step, Logger: k.log,
		Serving:   &tls.Config{GetCertificate: credentials.ServingCertificate, MinVersion: tls.VersionTLS12},
		ClientCAs: credentials.ClientCAs(), Revoked: revoked,
	})
	if err != nil {
		return err
	}
	k.node.Store(part)
	k.parts.StartWithin("node "+name, part.Run, part.Stop, nodeStop(cfg))
	if err := k.await(ctx, part.Ready()); err != nil {
		return err
	}
	// Its Node has the addresses now, which who approves compares.
	hostname := cfg.Node.HostnameOverride
	if hostname == "" {
		hostname = name
	}
	k.parts.Start("serving certificate", func(ctx context.Context) error {
		return credentials.Serve(ctx, []string{strings.ToLower(hostname)}, ips)
	}, nil)
	close(k.ready)
	return k.await(ctx, nil)
}

// pluginAccess has a socket for each plugin with rules. Through it go requests that the rules
// allow, as the node.
func (m *Machine) pluginAccess() *identities {
	ids := newIdentities(m.k)
	ids.ready = func() <-chan struct{} { return m.known }
	ids.serve = func(ctx context.Context, ln net.Listener, _ user.Info, s *socket) error {
		server, err := url.Parse(m.credentials.Server())
		if err != nil {
			return fmt.Errorf("address of the API server: %w", err)
		}
		return pluginaccess.Serve(ctx, ln, s.gate.Bound(pluginaccess.Handler(pluginaccess.Config{
			Plugin: s.name, Server: server, Transport: m.credentials.Transport(), Logger: m.k.log.With("part", "plugins", "plugin", s.name),
			Rules: func() []v1alpha1.PluginPermission { return s.access.Load().Rules },
			Denied: func(what string) {
				if denied := s.access.Load().Denied; denied != nil {
					denied(what)
				}
			},
		})), m.k.log)
	}
	return ids
}

// credentialsOf are those by which the node is known: of the kubeconfig, or of the cluster that
// the machine has joined, or joins now.
func (m *Machine) credentialsOf(ctx context.Context, name string) (*join.Credentials, error) {
	o := join.Options{Data: m.k.dirs.data, Node: name, Logger: m.k.log.With("part", "certificates"), Progress: func(format string, args ...any) { m.k.step("join", format, args...) }}
	if m.o.Kubeconfig != nil {
		c, err := join.FromKubeconfig(m.o.Kubeconfig, m.o.ClientCA, o)
		if err != nil {
			return nil, err
		}
		return c, c.Verify(ctx)
	}
	if m.o.Join == nil {
		c, err := join.Open(o)
		if errors.Is(err, join.ErrNotJoined) {
			return nil, fmt.Errorf("%w; name one with --join-file, --join or --kubeconfig; pintle token create --print-join-command prints how, where the kernel runs", err)
		}
		return c, err
	}
	limited, cancel := context.WithTimeout(ctx, m.o.JoinTimeout)
	defer cancel()
	c, err := join.Join(limited, *m.o.Join, o)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // what it waited for is of no interest any more
	}
	return c, err
}

// Reconfigure applies what a changed configuration can change while the node runs: log
// level, plugin bundles, live keys of the node. Everything else waits for the next start.
func (m *Machine) Reconfigure(_ context.Context, next *config.Config, changes []config.Change) {
	k := m.k
	var plugins bool
	var nodeKeys []string
	for _, c := range changes {
		switch {
		case !c.Live:
		case c.Key == "logging.level":
			if k.level != nil {
				k.level.Set(Level(next.Logging.Level))
			}
			k.log.Info("configuration applied", "key", c.Key, "value", next.Logging.Level)
		case strings.HasPrefix(c.Key, "node."):
			nodeKeys = append(nodeKeys, c.Key)
		default:
			plugins = true
		}
	}
	if err := checkMachine(next); err != nil {
		k.log.Error("configuration not applied; the former one stays in force", "error", err)
		return
	}
	k.mu.Lock()
	merged := *k.cfg
	k.mu.Unlock()
	merged.Logging.Level = next.Logging.Level
	merged.Plugins.Bundles, merged.Plugins.CallTimeout = next.Plugins.Bundles, next.Plugins.CallTimeout
	merged.Node = merged.Node.WithLive(next.Node)
	k.adopt(&merged, next, plugins, nodeKeys, func() {})
}
