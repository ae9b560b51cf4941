package shadow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// MaxShadows is how many bundles may have a candidate at once.
const MaxShadows = 4

// lookEvery bounds how long a change of the policy in force goes unnoticed.
const lookEvery = 2 * time.Second

// Config is what a Manager works with.
type Config struct {
	// Host runs the policy in force and finds candidates.
	Host *plugin.Host
	// Plugins are the Plugin objects.
	Plugins cache.ListerWatcher
	Log     *slog.Logger
}

// Manager runs the shadows that Plugin objects ask for.
type Manager struct {
	cfg  Config
	log  *slog.Logger
	poke chan struct{}

	mu        sync.Mutex
	scheduler Scheduler           // nil: none
	sessions  map[string]*session // by bundle
}

// New checks its argument and starts nothing.
func New(cfg Config) (*Manager, error) {
	if cfg.Host == nil || cfg.Plugins == nil {
		return nil, errors.New("shadow: a plugin host and a source of plugins are needed")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{cfg: cfg, log: cfg.Log, poke: make(chan struct{}, 1), sessions: map[string]*session{}}, nil
}

// Scheduler hands its deltas and decisions to a comparison until release is called.
type Scheduler interface {
	Follow(*explain.Comparison) (release func())
}

// Follow has shadows follow a scheduler's decisions; nil: there is none now.
func (m *Manager) Follow(s Scheduler) {
	m.mu.Lock()
	m.scheduler = s
	for _, x := range m.sessions {
		x.follow(s)
	}
	m.mu.Unlock()
}

func (m *Manager) wake() {
	select {
	case m.poke <- struct{}{}:
	default:
	}
}

// Run runs the shadows until ctx ends, and returns when they have ended.
func (m *Manager) Run(ctx context.Context) error {
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: m.cfg.Plugins, ObjectType: &v1alpha1.Plugin{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { m.wake() }, UpdateFunc: func(any, any) { m.wake() }, DeleteFunc: func(any) { m.wake() },
		},
	})
	var group sync.WaitGroup
	group.Go(func() { informer.RunWithContext(ctx) })
	defer group.Wait()
	defer m.endAll()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.poke:
		case <-tick.C:
			m.mu.Lock()
			idle := len(m.sessions) == 0
			m.mu.Unlock()
			if idle {
				continue
			}
		}
		if informer.HasSynced() {
			m.reconcile(ctx, wanted(store.List()))
		}
	}
}

// wanted are the candidates that objects ask for, by bundle. Where the plugins
// of one bundle ask for different ones, the first by name counts.
func wanted(objects []any) map[string]v1alpha1.PluginShadowSpec {
	plugins := make([]*v1alpha1.Plugin, 0, len(objects))
	for _, o := range objects {
		if p, ok := o.(*v1alpha1.Plugin); ok && p.Spec.Shadow != nil && p.DeletionTimestamp == nil {
			plugins = append(plugins, p)
		}
	}
	slices.SortFunc(plugins, func(a, b *v1alpha1.Plugin) int { return cmp.Compare(b.Name, a.Name) })
	out := map[string]v1alpha1.PluginShadowSpec{}
	for _, p := range plugins {
		out[p.Spec.Bundle] = *p.Spec.Shadow
	}
	return out
}

func (m *Manager) reconcile(ctx context.Context, want map[string]v1alpha1.PluginShadowSpec) {
	policy := m.cfg.Host.Choosing()
	state, err := json.Marshal(policy)
	if err != nil {
		m.log.Error("shadows cannot follow the policy", "error", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, bundle := range slices.Sorted(maps.Keys(m.sessions)) {
		x := m.sessions[bundle]
		if spec, ok := want[bundle]; !ok || spec != x.spec || x.state != string(state) {
			delete(m.sessions, bundle)
			m.mu.Unlock()
			x.end()
			m.mu.Lock()
			m.log.Info("shadow ended", "bundle", bundle)
		}
	}
	for _, bundle := range slices.Sorted(maps.Keys(want)) {
		if m.sessions[bundle] != nil {
			continue
		}
		x := newSession(bundle, want[bundle], string(state), m.log.With("shadow", bundle))
		m.sessions[bundle] = x
		if len(m.sessions) > MaxShadows {
			x.failed(fmt.Errorf("%d shadows run already; end one of them first", MaxShadows))
			continue
		}
		if err := x.prepare(policy, &m.cfg); err != nil {
			x.failed(err)
			m.log.Warn("shadow cannot run", "bundle", bundle, "error", err)
			continue
		}
		x.start(ctx)
		x.follow(m.scheduler)
		m.log.Info("shadow started", "bundle", bundle, "version", x.version, "digest", x.digest)
	}
}

func (m *Manager) endAll() {
	m.mu.Lock()
	sessions := slices.Collect(maps.Values(m.sessions))
	m.sessions = map[string]*session{}
	m.mu.Unlock()
	for _, x := range sessions {
		x.end()
	}
}

// Report is what is known of a bundle's candidate.
type Report struct {
	Bundle    string                 `json:"bundle"`
	Present   v1alpha1.PluginVersion `json:"present"`
	Candidate v1alpha1.PluginVersion `json:"candidate"`
	State     v1alpha1.PluginState   `json:"state"`
	Message   string                 `json:"message,omitempty"`
	Since     time.Time              `json:"since"`
	explain.Diff
}

// Diff reports on the candidate of a bundle, with the disagreements after a
// sequence number; false: it has none.
func (m *Manager) Diff(bundle string, after uint64) (*Report, bool) {
	m.mu.Lock()
	x := m.sessions[bundle]
	m.mu.Unlock()
	if x == nil {
		return nil, false
	}
	return x.report(after), true
}
