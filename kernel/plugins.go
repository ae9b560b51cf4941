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
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api/admission/review"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/nodepart"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/sdk"
)

// pluginDirectories are where bundles are looked for: those of the configuration,
// or else the folder beside the binary.
func (k *Kernel) pluginDirectories(cfg *config.Config) []string {
	if len(cfg.Plugins.Directories) > 0 {
		return cfg.Plugins.Directories
	}
	return []string{filepath.Join(filepath.Dir(k.exe), "plugins")}
}

// hostConfig builds the plugin host's configuration.
func (k *Kernel) hostConfig(cfg *config.Config) plugin.Config {
	out := plugin.Config{
		Directories:  k.pluginDirectories(cfg),
		Modules:      modulecache.Of(cfg.DataDir, k.log.With("part", "plugins")),
		RunDirectory: k.dirs.run,
		CallTimeout:  cfg.Plugins.CallTimeout,
		StartTimeout: cfg.Plugins.StartTimeout,
		MemoryLimit:  int64(cfg.Plugins.MemoryLimit),
		Controllers:  slices.Concat(cfg.Control.Enabled, onDemand(cfg)),
		OnDemand:     onDemand(cfg),
		Waiting:      slices.DeleteFunc(onDemand(cfg), k.demand.Met),
		Admission:    cfg.Admission.Enabled,
		APIServers:   cfg.APIServers.Enabled,
		Cloud:        providers(cfg),
		Standby:      !k.has(dutyControllers),

		ProcessMemoryLimit: int64(cfg.Plugins.ProcessMem), CallsPerSecond: cfg.Plugins.Calls, PIDs: cfg.Plugins.Processes,
		SharedDirectory: k.dirs.shared, PublicDirectory: k.dirs.public(), RunWithout: cfg.Plugins.RunWithout, WASMWorker: cfg.Plugins.WASMWorker,
	}
	if os.Geteuid() == 0 {
		out.Cgroup = "/pintle/" + shortHash(k.dirs.data)
	}
	if first, last, err := config.ParseIDRange(cfg.Plugins.UIDRange); err == nil {
		out.Users = process.Users{First: first, Count: last - first + 1, File: filepath.Join(k.dirs.plugins, "users.json")}
	}
	if out.Standby {
		// Who leads writes how the plugins are that it runs.
		out.Silent = append(out.Silent, sdk.KindController, sdk.KindCloud, sdk.KindRuntime, sdk.KindProxy, sdk.KindNetwork, sdk.KindAPIServer)
	}
	if !k.has(dutyScheduler) {
		out.Silent = append(append(out.Silent, sdk.KindPredicate, sdk.KindPriority), sdk.CycleKinds()...)
	}
	if cfg.Node.Enabled {
		out.NodeName = nodepart.Name(cfg)
		out.Runtimes, out.Proxies = []string{cfg.Node.Runtime}, slices.Clone(cfg.Node.Proxies)
		if cfg.Node.Network != "" {
			out.Networks = []string{cfg.Node.Network}
		}
		if cfg.Node.DNS != "" {
			out.Proxies = append(out.Proxies, cfg.Node.DNS)
		}
		if cfg.Node.Policies != "" {
			out.Proxies = append(out.Proxies, cfg.Node.Policies)
		}
		if cfg.Node.Announcer != "" {
			out.Proxies = append(out.Proxies, cfg.Node.Announcer)
		}
	}
	if cfg.Hollow.Nodes > 0 {
		out.Runtimes = append(out.Runtimes, cfg.Hollow.Runtime)
	}
	for _, b := range cfg.Plugins.Bundles {
		out.Bundles = append(out.Bundles, plugin.BundleConfig{
			Name: b.Name, Transport: b.Transport, Digest: b.Digest, Granted: b.Digest, OnFailure: b.OnFailure, Config: k.expand(b.Config, cfg.DataDir),
			Limits: limitsOf(b.Limits), Privileged: b.Privileged, Network: b.Network, LowPorts: b.LowPorts, Files: b.Files, HostFunctions: b.HostFunctions,
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
			profile.BindersOnly = len(p.Bind) > 0 && !slices.Contains(p.Bind, framework.DefaultBinder)
			profile.Config = profileConfigs(p.Config)
			out.Profiles = append(out.Profiles, profile)
		}
	}
	return out
}

// providers is the cloud provider of a configuration, or none.
func providers(cfg *config.Config) []string {
	if cfg.Cloud.Provider == "" {
		return nil
	}
	return []string{cfg.Cloud.Provider}
}

// bindersBefore are the bind plugins that are asked before the kernel binds: those
// before DefaultBinder, which is the kernel itself and skips no pod, or all.
func bindersBefore(names []string) []string {
	before := []string{}
	for _, name := range names {
		if name == framework.DefaultBinder {
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
		replace("${dataDir}/"+authorityFile, filepath.Join(k.dirs.public(), filepath.Base(authorityFile)))
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
		err = os.WriteFile(filepath.Join(k.dirs.public(), filepath.Base(authorityFile)), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("certificate authority for plugins: %w", err)
	}
	return nil
}

func limitsOf(l config.Limits) manifest.Limits {
	out := manifest.Limits{CPU: l.CPU, CallsPerSecond: l.CallsPerSecond, PIDs: l.PIDs}
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
	for _, kind := range append(append([]string{sdk.KindPredicate, sdk.KindPriority}, sdk.CycleKinds()...), sdk.KindController, sdk.KindCloud, sdk.KindAPIServer, sdk.KindRuntime, sdk.KindNetwork, sdk.KindProxy) {
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
	case n == 1 && kind == sdk.KindCloud:
		return "cloud provider"
	case n == 1:
		return kind
	case kind == "priority":
		return "priorities"
	case kind == "proxy":
		return "proxies"
	case kind == sdk.KindCloud:
		return "cloud providers"
	case kind == sdk.KindReserve || kind == sdk.KindPermit || kind == sdk.KindBind || strings.Contains(kind, "-"):
		return kind + " plugins"
	}
	return kind + "s"
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// lateConfig is a client configuration that is handed out before the API
// server exists; requests made before then fail.
type lateConfig struct {
	mu        sync.Mutex
	transport http.RoundTripper
}

func (l *lateConfig) config() *rest.Config {
	return &rest.Config{
		Host: "http://inprocess", Transport: l, QPS: -1, UserAgent: "pintle/plugin-host",
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

// reviewed are the admission plugins as the API server takes them.
type reviewed struct {
	of      []*plugin.Admission
	plugins []review.Plugin
}

// Reviews hands the API server the admission plugins that are in use; it is asked
// a request.
func (k *Kernel) Reviews() ([]review.Plugin, bool) {
	of, ok := k.host.Admissions()
	if len(of) == 0 {
		return nil, ok
	}
	if r := k.reviewed.Load(); r != nil && len(r.of) == len(of) && &r.of[0] == &of[0] {
		return r.plugins, ok
	}
	r := &reviewed{of: of}
	for _, a := range of {
		r.plugins = append(r.plugins, a)
	}
	k.reviewed.Store(r)
	return r.plugins, ok
}

// Reviewing is closed when Reviews knows the admission plugins.
func (k *Kernel) Reviewing() <-chan struct{} { return k.host.Ready() }

// recallPlugins tells the plugin host what Plugin objects asked for when the last
// kernel ended, before the API answers anybody. Where the store cannot say it now,
// requests that may have to be reviewed wait until it does.
func (k *Kernel) recallPlugins(ctx context.Context) {
	list, err := k.api.StoredPlugins(ctx)
	if err != nil {
		k.log.Warn("what Plugin objects ask for is not known yet; requests wait for it", "error", err)
		return
	}
	k.host.Recall(list)
}
