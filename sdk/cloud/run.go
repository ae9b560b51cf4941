package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/controllers/route"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/cloud-provider/names"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/controller-manager/pkg/features/register" // the gates that the controllers ask for
)

// runner is a provider with the controllers that work by it.
type runner struct {
	name     string
	settings settings
	made     cloudprovider.Interface
	log      *slog.Logger
	gate     *gate
	config   *rest.Config
	client   kubernetes.Interface
	services coreinformers.ServiceInformer
	nodes    coreinformers.NodeInformer
}

// part is one of upstream's controllers.
type part struct {
	name string
	run  func(ctx context.Context)
}

// Run works until ctx ends. Then it waits for the controllers, what the provider was asked
// and what its client sent.
func (r *runner) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil // built to try a configuration
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := newGuard(ctx, r.name, r.settings.ProviderTimeout.Duration, r.log, r.gate)
	defer r.gate.close()
	noted := &handlers{}
	defer noted.remove()
	end, err := r.initialize(ctx, g)
	defer func() {
		cancel() // before the informers and the gate are waited for
		end()
	}()
	if err != nil {
		return err
	}
	provider, err := look(g, r.made, newAnswers(r.services.Lister(), r.nodes.Lister()), r.client)
	if err != nil {
		return err
	}
	parts, err := r.parts(provider, noted)
	if err != nil {
		return err
	}
	var list []string
	for _, p := range parts {
		list = append(list, p.name)
	}
	r.log.Info("cloud provider runs", "controllers", strings.Join(list, " "))
	return follow(ctx, parts)
}

// initialize lets a provider begin what it does by itself, and returns what ends that.
func (r *runner) initialize(ctx context.Context, g *guard) (end func(), err error) {
	factory := informers.NewSharedInformerFactory(r.client, 0)
	user, wants := r.made.(cloudprovider.InformerUser)
	_, err = recovering(g, "Initialize", "the provider", func() (struct{}, error) {
		r.made.Initialize(clients{r.config, r.client}, ctx.Done())
		if wants {
			user.SetInformers(factory)
		}
		return struct{}{}, nil
	})
	if wants {
		// Its own ones: what it adds there ends with it.
		factory.Start(ctx.Done())
	}
	return factory.Shutdown, err
}

// parts makes the controllers that are switched on and that the provider has the parts
// for. There is always one: else the configuration is wrong.
func (r *runner) parts(provider *guarded, noted *handlers) ([]part, error) {
	var list []part
	var without []string
	counted := controllersmetrics.NewControllerManagerMetrics(manager)
	services, nodes := servicesOf{r.services, noted}, nodesOf{r.nodes, noted}
	add := func(name string, has bool, build func() (func(context.Context), error)) error {
		if !r.settings.runs(name) {
			return nil
		}
		if !has {
			without = append(without, name)
			return nil
		}
		run, err := build()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, part{name, run})
		return nil
	}
	instances := provider.instances != nil || provider.second != nil
	err := errors.Join(
		add(names.CloudNodeController, instances, func() (func(context.Context), error) {
			c, err := node.NewCloudNodeController(nodes, r.client, provider, r.settings.NodeStatusUpdateFrequency.Duration, int32(r.settings.ConcurrentNodeSyncs), int32(r.settings.ConcurrentNodeStatusUpdates))
			return func(ctx context.Context) { c.RunWithContext(ctx, counted) }, err
		}),
		add(names.CloudNodeLifecycleController, instances, func() (func(context.Context), error) {
			c, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, r.client, provider, r.settings.NodeMonitorPeriod.Duration)
			return func(ctx context.Context) { c.Run(ctx, counted) }, err
		}),
		add(names.ServiceLBController, provider.balancers != nil, func() (func(context.Context), error) {
			c, err := service.New(provider, r.client, services, nodes, r.settings.ClusterName, utilfeature.DefaultFeatureGate)
			return func(ctx context.Context) { c.Run(ctx, r.settings.ConcurrentServiceSyncs, counted) }, err
		}),
		add(names.NodeRouteController, provider.routes != nil && r.settings.ConfigureCloudRoutes, func() (func(context.Context), error) {
			if len(r.settings.clusterCIDRs) == 0 { // upstream's ends the process
				return nil, errors.New("the configuration has no clusterCIDR, the range of pods that routes are for; set it, or configureCloudRoutes: false")
			}
			guardedRoutes, _ := provider.Routes()
			c, err := route.New(guardedRoutes, r.client, nodes, r.settings.ClusterName, r.settings.clusterCIDRs)
			return func(ctx context.Context) { c.Run(ctx, r.settings.RouteReconciliationPeriod.Duration, counted) }, err
		}),
	)
	if err == nil && len(list) == 0 {
		err = errors.New("no controller has anything to do: the provider has no load balancers, instances or routes, or the configuration switches them off (controllers)")
	}
	if err == nil && len(without) > 0 {
		r.log.Info("cloud provider has nothing for these controllers, and they do not run", "controllers", strings.Join(without, " "))
	}
	return list, err
}

// follow runs parts until ctx ends, or one of them does.
func follow(ctx context.Context, parts []part) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, p := range parts {
		group.Go(func() {
			defer func() {
				if said := recover(); said != nil {
					cancel(fmt.Errorf("%s: panic: %v\n%s", p.name, said, debug.Stack()))
				}
			}()
			p.run(inner)
			cancel(fmt.Errorf("%s ended although it was to run on", p.name))
		})
	}
	<-inner.Done()
	err := context.Cause(inner)
	group.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}
