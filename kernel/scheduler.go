package kernel

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/extender"
	"pintle.dev/pintle/kernel/readable"
	"pintle.dev/pintle/kernel/scheduler"
)

// startScheduler runs the scheduler over the registry's own objects: nothing
// is encoded between the store and the cycle. Of kernels that share a store,
// the one that holds the Lease schedules.
func (k *Kernel) startScheduler(cfg *config.Config) error {
	if k.shared {
		k.parts.Start("scheduler", func(ctx context.Context) error {
			return k.lead(ctx, cfg.Election, schedulerLease, schedulerIdentity, func(ctx, _ context.Context) error {
				run, err := k.newScheduler(k.config())
				if err != nil {
					return err
				}
				if err := k.setDuty(dutyScheduler, true); err != nil {
					k.log.Error("the scheduler does not start; another kernel may lead", "error", err)
					return errAgain
				}
				err = run(ctx)
				if err := k.setDuty(dutyScheduler, false); err != nil {
					k.log.Error("plugins are told later that this kernel schedules no more", "error", err)
				}
				return err
			})
		}, nil)
		return nil
	}
	run, err := k.newScheduler(cfg)
	if err != nil {
		return err
	}
	k.parts.Start("scheduler", run, nil)
	return nil
}

// newScheduler makes a scheduler that the plugins are fed from.
func (k *Kernel) newScheduler(cfg *config.Config) (func(ctx context.Context) error, error) {
	deps := scheduler.Deps{Log: k.log.With("part", "scheduler"), Bind: k.api.Bind, BindAll: k.api.BindAll}
	deps.Status = func(ctx context.Context, pod *corev1.Pod, condition *corev1.PodCondition, nominated *string) error {
		return k.api.SetPodStatus(ctx, pod.Namespace, pod.Name, pod.UID, condition, nominated)
	}
	deps.Evict = func(ctx context.Context, victim *corev1.Pod, condition *corev1.PodCondition) error {
		if err := k.api.SetPodStatus(ctx, victim.Namespace, victim.Name, victim.UID, condition, nil); err != nil {
			return err
		}
		return k.api.DeletePod(ctx, schedulerIdentity, victim.Namespace, victim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}})
	}
	deps.Metrics = k.schedulerMetrics
	if k.tracing != nil {
		deps.Tracer = k.tracing.Tracer(schedulerTracer)
	}
	deps.Objects = map[string]cache.ListerWatcher{}
	var err error
	if deps.Pods, err = k.api.Source(corev1.SchemeGroupVersion.WithResource("pods"), nil); err != nil {
		return nil, err
	}
	if deps.Nodes, err = k.api.Source(corev1.SchemeGroupVersion.WithResource("nodes"), nil); err != nil {
		return nil, err
	}
	for _, name := range readable.Names() {
		kind, _ := readable.Of(name)
		if deps.Objects[name], err = k.api.Source(kind.Resource, nil); err != nil {
			return nil, err
		}
	}
	deps.Profiles = k.policySources(cfg)
	extenders, err := newExtenders(cfg.Scheduler.Extenders)
	if err != nil {
		return nil, err
	}
	for _, e := range extenders {
		deps.Extenders = append(deps.Extenders, e)
	}
	client, _, err := k.client(schedulerIdentity)
	if err != nil {
		return nil, err
	}
	events, err := newSchedulerEvents(k.api, client, k.eventMetrics, deps.Log)
	if err != nil {
		return nil, err
	}
	deps.Events, deps.Busy = events, events.recorder.Hold
	s, err := scheduler.New(scheduler.Config{
		Seed: uint64(cfg.Scheduler.Seed), BackoffInitial: cfg.Scheduler.InitialBackoff, BackoffMax: cfg.Scheduler.MaxBackoff,
		UnschedulableFlush: cfg.Scheduler.Unschedulable,
		FirstGeneration:    k.nextGenerations(),
	}, deps)
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	k.host.SetReplicaSource(s)
	return func(ctx context.Context) error {
		defer func() {
			for _, e := range extenders {
				e.Close()
			}
		}()
		group, ctx := errgroup.WithContext(ctx)
		// The events of what was done last are written as well.
		recording, recorded := context.WithCancel(context.WithoutCancel(ctx))
		group.Go(func() error { return events.recorder.Run(recording) })
		group.Go(func() error {
			defer recorded()
			k.schedules(s)
			defer k.schedules(nil)
			return s.Run(ctx)
		})
		return group.Wait()
	}, nil
}

// policySources are the policies of a configuration's profiles, by schedulerName.
func (k *Kernel) policySources(cfg *config.Config) map[string]scheduler.PolicySource {
	out := map[string]scheduler.PolicySource{}
	for _, p := range cfg.Scheduler.Profiles {
		out[p.SchedulerName] = k.host.Source(p.SchedulerName)
	}
	return out
}

// setProfiles gives the scheduler that runs, if one does, the profiles of the
// configuration in force.
func (k *Kernel) setProfiles() {
	k.profilesMu.Lock()
	defer k.profilesMu.Unlock()
	s := k.scheduling.Load()
	if s == nil {
		return
	}
	if err := s.SetProfiles(k.policySources(k.config())); err != nil {
		k.log.Error("scheduler profiles not changed; the former ones stay in force", "error", err)
	}
}

// newExtenders makes the extenders of a configuration; nobody is connected to.
func newExtenders(list []config.Extender) ([]*extender.Extender, error) {
	var out []*extender.Extender
	for _, c := range list {
		e, err := extender.New(extender.Config{
			URLPrefix: c.URLPrefix, FilterVerb: c.FilterVerb, PrioritizeVerb: c.PrioritizeVerb, BindVerb: c.BindVerb, PreemptVerb: c.PreemptVerb,
			Weight: c.Weight, Timeout: c.HTTPTimeout, EnableHTTPS: c.EnableHTTPS, NodeCacheCapable: c.NodeCacheCapable,
			ManagedResources: c.ManagedResources, Ignorable: c.Ignorable,
			TLS: rest.TLSClientConfig{Insecure: c.TLS.Insecure, ServerName: c.TLS.ServerName, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, CAFile: c.TLS.CAFile},
		})
		if err != nil {
			return nil, fmt.Errorf("scheduler: %w", err)
		}
		out = append(out, e)
	}
	return out, nil
}
