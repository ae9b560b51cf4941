package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/admission/review"
	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/sdk"
)

// hostConfig builds the plugin host's configuration.
func (k *Kernel) hostConfig(cfg *config.Config) plugin.Config {
	out := plugin.Config{
		Directories:    cfg.Plugins.Directories,
		CacheDirectory: filepath.Join(k.dirs.plugins, "cache"),
		RunDirectory:   k.dirs.run,
		CallTimeout:    cfg.Plugins.CallTimeout,
		MemoryLimit:    int64(cfg.Plugins.MemoryLimit),
		Controllers:    cfg.Control.Enabled,
		Admission:      cfg.Admission.Enabled,
		Standby:        !k.has(dutyControllers),

		ProcessMemoryLimit: int64(cfg.Plugins.ProcessMem), CallsPerSecond: cfg.Plugins.Calls, PIDs: cfg.Plugins.Processes,
		SharedDirectory: k.dirs.shared,
	}
	if os.Geteuid() == 0 {
		out.Cgroup = "/pintle/" + shortHash(k.dirs.data)
	}
	if first, last, err := config.ParseIDRange(cfg.Plugins.UIDRange); err == nil {
		out.Users = plugin.Users{First: first, Count: last - first + 1, File: filepath.Join(k.dirs.plugins, "users.json")}
	}
	if out.Standby {
		// Who leads writes how the plugins are that it runs.
		out.Silent = append(out.Silent, sdk.KindController, sdk.KindRuntime, sdk.KindProxy)
	}
	if !k.has(dutyScheduler) {
		out.Silent = append(append(out.Silent, sdk.KindPredicate, sdk.KindPriority), sdk.CycleKinds()...)
	}
	if len(out.Directories) == 0 {
		out.Directories = []string{filepath.Join(filepath.Dir(k.exe), "plugins")}
	}
	if cfg.Node.Enabled {
		out.NodeName = nodeName(cfg)
	}
	for _, b := range cfg.Plugins.Bundles {
		out.Bundles = append(out.Bundles, plugin.BundleConfig{
			Name: b.Name, Transport: b.Transport, Digest: b.Digest, OnFailure: b.OnFailure, Config: k.expand(b.Config, cfg.DataDir),
			Limits: limitsOf(b.Limits), Privileged: b.Privileged, Files: b.Files, HostFunctions: b.HostFunctions,
		})
	}
	k.addInstalled(&out)
	if cfg.Scheduler.Enabled {
		for _, p := range cfg.Scheduler.Profiles {
			profile := plugin.Profile{SchedulerName: p.SchedulerName, Predicates: p.Predicates}
			for _, w := range p.Priorities {
				profile.Priorities = append(profile.Priorities, plugin.WeightedPriority{Name: w.Name, Weight: w.Weight})
			}
			profile.Points = map[string][]string{
				sdk.KindPreEnqueue: p.PreEnqueue, sdk.KindPreFilter: p.PreFilter, sdk.KindPostFilter: p.PostFilter, sdk.KindPreScore: p.PreScore,
				sdk.KindReserve: p.Reserve, sdk.KindPermit: p.Permit, sdk.KindPreBind: p.PreBind, sdk.KindBind: bindersBefore(p.Bind), sdk.KindPostBind: p.PostBind,
			}
			if p.QueueSort != "" {
				profile.Points[sdk.KindQueueSort] = []string{p.QueueSort}
			}
			profile.Config = profileConfigs(p.Config)
			out.Profiles = append(out.Profiles, profile)
		}
	}
	return out
}

// bindersBefore are the bind plugins that are asked before the kernel binds: those
// before DefaultBinder, which is the kernel itself and skips no pod, or all.
func bindersBefore(names []string) []string {
	before := []string{}
	for _, name := range names {
		if name == scheduler.DefaultBinder {
			break
		}
		before = append(before, name)
	}
	return before
}

// profileConfigs splits a profile's configuration of plugins, which kernel/config
// found to be an object.
func profileConfigs(raw json.RawMessage) map[string]json.RawMessage {
	var configs map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &configs) != nil {
		return nil
	}
	return configs
}

// authorityFile is the one file of the data directory that plugins with a user of
// their own read: the cluster's certificate authority.
const authorityFile = "pki/ca.crt"

// expand replaces ${dataDir} in a plugin's configuration: the one thing that a
// plugin may have to know of the kernel's own.
func (k *Kernel) expand(raw json.RawMessage, dataDir string) json.RawMessage {
	replace := func(word, path string) {
		if quoted, err := json.Marshal(path); err == nil {
			raw = bytes.ReplaceAll(raw, []byte(word), quoted[1:len(quoted)-1])
		}
	}
	if len(raw) == 0 {
		return raw
	}
	if k.dirs.shared != "" {
		replace("${dataDir}/"+authorityFile, filepath.Join(k.dirs.shared, filepath.Base(authorityFile)))
	}
	replace("${dataDir}", dataDir)
	return raw
}

// shareAuthority puts a copy of the authority's certificate where every plugin
// can read it.
func (k *Kernel) shareAuthority() error {
	if k.dirs.shared == "" {
		return nil
	}
	data, err := os.ReadFile(k.api.PKI().CAFile())
	if err == nil {
		err = os.WriteFile(filepath.Join(k.dirs.shared, filepath.Base(authorityFile)), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("certificate authority for plugins: %w", err)
	}
	return nil
}

func limitsOf(l config.Limits) plugin.Limits {
	out := plugin.Limits{CPU: l.CPU, CallsPerSecond: l.CallsPerSecond, PIDs: l.PIDs}
	if l.Memory > 0 {
		out.Memory = l.Memory.String()
	}
	return out
}

// pluginSummary counts what runs, for people.
func (k *Kernel) pluginSummary() string {
	counts := map[string]int{}
	for _, p := range k.host.Plugins() {
		counts[string(p.Spec.Kind)]++
	}
	out := ""
	for _, kind := range append(append([]string{sdk.KindPredicate, sdk.KindPriority}, sdk.CycleKinds()...), sdk.KindController, sdk.KindRuntime, sdk.KindProxy) {
		if n := counts[kind]; n > 0 {
			if out != "" {
				out += ", "
			}
			out += fmt.Sprintf("%d %s", n, plural(kind, n))
		}
	}
	if out == "" {
		return "none"
	}
	return out
}

func plural(kind string, n int) string {
	switch {
	case n == 1:
		return kind
	case kind == "priority":
		return "priorities"
	case kind == "proxy":
		return "proxies"
	case kind == sdk.KindReserve || kind == sdk.KindPermit || kind == sdk.KindBind || strings.Contains(kind, "-"):
		return kind + " plugins"
	}
	return kind + "s"
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// identities opens the API sockets that stand for plugins, one each.
type identities struct {
	kernel  *Kernel
	ctx     context.Context //nolint:containedctx // ends the sockets, which outlive the call that opens them
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	sockets map[string]socket
}

// socket is one that is served.
type socket struct {
	path string
	gate *api.Gate
}

func newIdentities(k *Kernel) *identities {
	ctx, cancel := context.WithCancel(context.Background())
	return &identities{kernel: k, ctx: ctx, cancel: cancel, sockets: map[string]socket{}}
}

// close ends the sockets; the plugins that use them have stopped before.
func (i *identities) close(context.Context) error {
	i.cancel()
	i.wg.Wait()
	return nil
}

// open returns the socket of a plugin's identity and serves it until the
// kernel stops.
func (i *identities) open(ctx context.Context, name string, a plugin.Access) (string, error) {
	k := i.kernel
	select {
	case <-k.api.Ready():
	case <-ctx.Done():
		return "", ctx.Err()
	}
	dir := a.Directory
	if dir == "" {
		dir = filepath.Join(k.dirs.run, "api")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("api socket of plugin %s: %w", name, err)
		}
	}
	// Names may be long, and paths of sockets may not.
	path := filepath.Join(dir, shortHash(name))
	i.mu.Lock()
	defer i.mu.Unlock()
	s, ok := i.sockets[path]
	if !ok {
		s = socket{path, &api.Gate{UID: a.UID, GID: a.GID}}
	}
	s.gate.Set(a.CallsPerSecond, a.Denied)
	if ok {
		return path, nil
	}
	ln, err := api.ListenUnix(ctx, path, s.gate)
	if err != nil {
		return "", fmt.Errorf("plugin %s: %w", name, err)
	}
	i.sockets[path] = s
	u := &user.DefaultInfo{Name: rbac.PluginUser(name)}
	i.wg.Go(func() {
		if err := k.api.ServeUnix(i.ctx, ln, u, s.gate); err != nil && i.ctx.Err() == nil {
			k.log.Error("api socket of a plugin ended", "plugin", name, "error", err)
		}
	})
	return path, nil
}

// lateConfig is a client configuration that is handed out before the API
// server exists; requests made before then fail.
type lateConfig struct {
	mu        sync.Mutex
	transport http.RoundTripper
}

func (l *lateConfig) config() *rest.Config {
	return &rest.Config{
		Host: "http://inprocess", Transport: l, QPS: -1,
		ContentConfig: rest.ContentConfig{AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
	}
}

func (l *lateConfig) set(c *rest.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transport = c.Transport
}

// RoundTrip implements http.RoundTripper.
func (l *lateConfig) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	t := l.transport
	l.mu.Unlock()
	if t == nil {
		return nil, errors.New("the API server has not started")
	}
	return t.RoundTrip(req)
}

// reviews hands the API server the admission plugins that run.
func (k *Kernel) reviews() ([]review.Plugin, bool) {
	admissions, ok := k.host.Admissions()
	plugins := make([]review.Plugin, 0, len(admissions))
	for _, a := range admissions {
		plugins = append(plugins, a)
	}
	return plugins, ok
}
