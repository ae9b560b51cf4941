package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/readable"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/simulation"
)

// registerInspections puts the kernel's answers into its Mux.
func (k *Kernel) registerInspections() {
	k.inspect.Get("explain/namespaces/{namespace}/pods/{name}", k.explain)
	inspect.Post(k.inspect, "simulate", k.simulate)
	inspect.Post(k.inspect, "installations/try", k.tryInstallation)
	inspect.Post(k.inspect, "installations/load", k.loadInstallation)
	k.inspect.Get("plugins/{name}/diff", k.diff)
	k.inspect.Stream("plugins/{name}/logs", "application/x-ndjson", k.logs)
	k.inspect.Get("policy", func(*http.Request) (any, error) { return k.host.Choosing(), nil })
	k.inspect.Get("extenders", func(*http.Request) (any, error) { return k.config().Scheduler.Extenders, nil })
}

var errNoScheduler = inspect.Unavailable("this kernel does not schedule: scheduler.enabled is false, or another kernel of the same store leads")

func (k *Kernel) explain(req *http.Request) (any, error) {
	s := k.scheduling.Load()
	if s == nil {
		return nil, errNoScheduler
	}
	o := explain.Options{Now: req.FormValue("now") == "true"}
	if text := req.FormValue("nodes"); text != "" {
		var err error
		if o.Nodes, err = strconv.Atoi(text); err != nil || o.Nodes < 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("nodes: %q is not a number of nodes", text))
		}
	}
	namespace, name := req.PathValue("namespace"), req.PathValue("name")
	x, err := s.Why(req.Context(), namespace, name, o)
	switch {
	case errors.Is(err, scheduler.ErrUnknownPod):
		return nil, k.unknownPod(req.Context(), namespace, name)
	case errors.Is(err, scheduler.ErrNotReady):
		return nil, inspect.Unavailable("%v", err)
	}
	return x, err
}

// unknownPod says what it is about a pod that the scheduler does not know.
func (k *Kernel) unknownPod(ctx context.Context, namespace, name string) error {
	client, _, err := k.client(schedulerIdentity)
	if err != nil {
		return err
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, fmt.Errorf(format, args...))
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return conflict("it has ended (%s) and its decision is no longer kept", pod.Status.Phase)
	}
	return conflict("schedulerName %q is not a profile of this kernel; another scheduler is responsible for this pod", pod.Spec.SchedulerName)
}

func (k *Kernel) simulate(ctx context.Context, r *simulation.Request) (any, error) {
	if len(r.With) > 0 {
		return nil, apierrors.NewBadRequest("with: a kernel does not load what a request names; pintle simulate runs it beside the kernel")
	}
	if len(r.Pods) == 0 || len(r.Pods) > scheduler.SimulationMax {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pods: %d; want 1 to %d", len(r.Pods), scheduler.SimulationMax))
	}
	// Each takes guests of its own: one after the other.
	if err := k.simulating.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer k.simulating.Release(1)
	cluster, err := k.picture(ctx)
	if err != nil {
		return nil, err
	}
	extenders, done, err := Extenders(k.config().Scheduler.Extenders)
	if err != nil {
		return nil, err
	}
	defer done()
	cluster.Extenders = extenders
	out, err := simulation.Run(ctx, k.host.Choosing(), cluster, r, plugin.Deps{
		Log: k.log.With("part", "simulation"), Beside: k.host, Apart: "@simulation",
	})
	if errors.Is(err, simulation.ErrRequest) {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err != nil {
		return nil, err
	}
	out.Snapshot = "live"
	return out, nil
}

// picture lists what the scheduler sees, without copying it.
func (k *Kernel) picture(ctx context.Context) (*scheduler.Cluster, error) {
	all := map[string]schema.GroupVersionResource{
		"Pod": v1.SchemeGroupVersion.WithResource("pods"), "Node": v1.SchemeGroupVersion.WithResource("nodes"),
	}
	for _, name := range readable.Names() {
		kind, _ := readable.Of(name)
		all[name] = kind.Resource
	}
	cluster := &scheduler.Cluster{}
	for kind, gvr := range all {
		source, err := k.api.Source(gvr, nil)
		if err != nil {
			return nil, err
		}
		list, err := source.List(metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		if err := cluster.Add(list); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}

// Extenders makes the extenders of a configuration for a simulation; done ends it.
func Extenders(list []config.Extender) (extenders []scheduler.Extender, done func(), err error) {
	made, err := newExtenders(list)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range made {
		extenders = append(extenders, e)
	}
	return extenders, func() {
		for _, e := range made {
			e.Close()
		}
	}, nil
}

// SchedulingConfig is what places pods in a kernel of a configuration, for
// simulations beside it. executable is the path of the kernel's binary.
func SchedulingConfig(cfg *config.Config, executable string) (plugin.Config, error) {
	h, err := pluginsOf(cfg, executable, func(host *plugin.Config) {
		host.Controllers, host.Cloud, host.Admission, host.APIServers = nil, nil, nil, nil
		host.Alone()
	})
	if err != nil {
		return plugin.Config{}, err
	}
	return h.Choosing(), nil
}
