package measured

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/admission"
)

// Metrics are those of one API server.
type Metrics struct {
	steps, plugins *prometheus.HistogramVec
	admit, check   observers
}

// New makes metrics under upstream's names.
func New() *Metrics {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_" + name + "_admission_duration_seconds", Help: help, Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5},
		}, append(labels, "type", "operation", "rejected"))
	}
	m := &Metrics{
		steps:   histogram("step", "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit)."),
		plugins: histogram("controller", "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).", "name"),
	}
	m.admit.with = func(operation, rejected string) prometheus.Observer {
		return m.steps.WithLabelValues("admit", operation, rejected)
	}
	m.check.with = func(operation, rejected string) prometheus.Observer {
		return m.steps.WithLabelValues("validate", operation, rejected)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.steps.Describe(ch)
	m.plugins.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.steps.Collect(ch)
	m.plugins.Collect(ch)
}

var operations = [...]admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}

// observers are those of one plugin, or of the chain, that were needed once.
type observers struct {
	with  func(operation, rejected string) prometheus.Observer
	known [len(operations)][2]atomic.Pointer[prometheus.Observer]
}

func (o *observers) observe(operation admission.Operation, start time.Time, err error) {
	took := time.Since(start).Seconds()
	for i, known := range operations {
		if known != operation {
			continue
		}
		rejected, word := 0, "false"
		if err != nil {
			rejected, word = 1, "true"
		}
		at := &o.known[i][rejected]
		observer := at.Load()
		if observer == nil {
			made := o.with(string(operation), word)
			observer = &made
			at.Store(observer)
		}
		(*observer).Observe(took)
		return
	}
}

// Chain is a chain that is measured as a whole.
func (m *Metrics) Chain(chain admission.MutationInterface, check admission.ValidationInterface) *Chain {
	return &Chain{metrics: m, chain: chain, check: check}
}

// Chain implements admission.MutationInterface and admission.ValidationInterface.
type Chain struct {
	metrics *Metrics
	chain   admission.MutationInterface
	check   admission.ValidationInterface
}

// Handles implements admission.Interface.
func (c *Chain) Handles(operation admission.Operation) bool { return c.chain.Handles(operation) }

// Admit implements admission.MutationInterface.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	start := time.Now()
	err := c.chain.Admit(ctx, a, o)
	c.metrics.admit.observe(a.GetOperation(), start, err)
	return err
}

// Validate implements admission.ValidationInterface.
func (c *Chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	start := time.Now()
	err := c.check.Validate(ctx, a, o)
	c.metrics.check.observe(a.GetOperation(), start, err)
	return err
}

// Plugin is a plugin that is measured under a name.
func (m *Metrics) Plugin(name string, p admission.Interface) admission.Interface {
	named := func(what string) func(operation, rejected string) prometheus.Observer {
		return func(operation, rejected string) prometheus.Observer {
			return m.plugins.WithLabelValues(name, what, operation, rejected)
		}
	}
	mutates, isMutating := p.(admission.MutationInterface)
	validates, isValidating := p.(admission.ValidationInterface)
	admitting := admits{Interface: p, plugin: mutates, observers: &observers{with: named("admit")}}
	checking := checks{Interface: p, plugin: validates, observers: &observers{with: named("validate")}}
	switch {
	case isMutating && isValidating:
		return &both{admitting, checking}
	case isMutating:
		return &admitting
	case isValidating:
		return &checking
	}
	return p
}

type admits struct {
	admission.Interface
	plugin    admission.MutationInterface
	observers *observers
}

// Admit implements admission.MutationInterface.
func (p *admits) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	start := time.Now()
	err := p.plugin.Admit(ctx, a, o)
	p.observers.observe(a.GetOperation(), start, err)
	return err
}

type checks struct {
	admission.Interface
	plugin    admission.ValidationInterface
	observers *observers
}

// Validate implements admission.ValidationInterface.
func (p *checks) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	start := time.Now()
	err := p.plugin.Validate(ctx, a, o)
	p.observers.observe(a.GetOperation(), start, err)
	return err
}

type both struct {
	admits
	checks
}

// Handles implements admission.Interface.
func (p *both) Handles(operation admission.Operation) bool { return p.admits.Handles(operation) }
