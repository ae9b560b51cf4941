package plugin

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/observe"
)

const (
	// exposeFor is how long all of them together may take.
	exposeFor = 2 * time.Second
	// exposeEvery is how old an answer is at least before they are asked again.
	exposeEvery = time.Second
)

// anyProcess are the prefixes of names that every process has metrics by: there
// the kernel and plugins stand side by side. Other names of the kernel's are its own.
var anyProcess = []string{"go_", "process_", "workqueue_", "rest_client_", "controller_runtime_", "grpc_"}

// exposer keeps what the bundles told last.
type exposer struct {
	asking sync.Mutex // held while they are asked

	mu       sync.Mutex
	at       time.Time
	kept     []*dto.MetricFamily // of each bundle in turn; never changed
	failures map[string]uint64
	told     map[string]string // by bundle, what was logged
}

// Metrics gathers from base, and adds the metrics that processes have of their
// own, with the label plugin. A process that does not answer in time, or says too
// much, keeps nobody from the others.
func (h *Host) Metrics(base prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		kernel, err := base.Gather()
		known := make(map[string]*dto.MetricFamily, len(kernel))
		for _, f := range kernel {
			known[f.GetName()] = f
		}
		var own []*dto.MetricFamily
		for _, f := range h.expositions() {
			if first := known[f.GetName()]; first == nil {
				known[f.GetName()] = f
			} else {
				// The name is one of the kernel's, or another bundle has it as well.
				shared := slices.ContainsFunc(anyProcess, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
				if slices.Contains(kernel, first) && !shared || first.GetType() != f.GetType() {
					continue
				}
				f = &dto.MetricFamily{Name: f.Name, Type: f.Type, Help: first.Help, Metric: f.Metric}
			}
			own = append(own, f)
		}
		all := func(families []*dto.MetricFamily, err error) prometheus.Gatherer {
			return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err })
		}
		// It checks what is added, and leaves out what does not fit.
		return prometheus.Gatherers{all(kernel, err), all(own, nil)}.Gather()
	})
}

// expositions asks every process for its metrics.
func (h *Host) expositions() []*dto.MetricFamily {
	x := &h.exposer
	x.asking.Lock()
	defer x.asking.Unlock()
	x.mu.Lock()
	kept, fresh := x.kept, time.Since(x.at) < exposeEvery
	x.mu.Unlock()
	if fresh {
		return kept
	}
	ctx, cancel := context.WithTimeout(context.Background(), exposeFor)
	defer cancel()
	units := h.present().units
	answers := make([][]*dto.MetricFamily, len(units))
	var wg sync.WaitGroup
	for i, u := range units {
		wg.Go(func() {
			families, err := u.expose(ctx)
			answers[i] = families
			h.exposer.note(u, err)
		})
	}
	wg.Wait()
	kept = slices.Concat(answers...)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kept, x.at = kept, time.Now()
	return kept
}

// note counts a failure, and logs one that is new.
func (x *exposer) note(u *unit, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := u.bundle.Manifest.Name
	if err == nil {
		delete(x.told, name)
		return
	}
	if x.failures == nil {
		x.failures, x.told = map[string]uint64{}, map[string]string{}
	}
	x.failures[name]++
	if x.told[name] != err.Error() {
		x.told[name] = err.Error()
		u.log.Warn("metrics of the plugin are left out", "error", err)
	}
}

// expose asks one bundle.
func (u *unit) expose(ctx context.Context) ([]*dto.MetricFamily, error) {
	u.mu.Lock()
	g, ok := u.guest.(guest.Exposing)
	u.mu.Unlock()
	if !ok {
		return nil, nil
	}
	data, err := g.Exposition(ctx, observe.MaxExposition)
	if err != nil || data == nil {
		return nil, err
	}
	return observe.ReadExposition(data, u.bundle.Manifest.Name)
}
