package aggregation

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
)

// checkers look at the availability of other servers at the same time.
const checkers = 5

// others is what deals with other servers: it begins with the first APIService that
// names a Service.
type others struct {
	a *Aggregator

	ctx       context.Context
	mu        sync.Mutex
	begun     bool
	group     sync.WaitGroup
	discovery apiserver.DiscoveryAggregationController
	openapi   *openapi
}

// services and endpointSlices are informers as kube-aggregator's controllers ask for them.
type services struct{ cache.SharedIndexInformer }

func (s services) Informer() cache.SharedIndexInformer { return s.SharedIndexInformer }
func (s services) Lister() corelisters.ServiceLister {
	return corelisters.NewServiceLister(s.GetIndexer())
}

type endpointSlices struct{ cache.SharedIndexInformer }

func (s endpointSlices) Informer() cache.SharedIndexInformer { return s.SharedIndexInformer }
func (s endpointSlices) Lister() discoverylisters.EndpointSliceLister {
	return discoverylisters.NewEndpointSliceLister(s.GetIndexer())
}

// start begins, once.
func (o *others) start() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun {
		return nil
	}
	if err := o.ctx.Err(); err != nil {
		return err
	}
	if err := o.run(); err != nil {
		return err
	}
	o.begun = true
	return nil
}

func (o *others) run() error {
	a := o.a
	serviceInformer, err := a.follow(corev1.SchemeGroupVersion.WithResource("services"), &corev1.Service{}, 0)
	if err != nil {
		return err
	}
	sliceInformer, err := a.follow(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), &discoveryv1.EndpointSlice{}, 0)
	if err != nil {
		return err
	}
	serviceList, sliceList := services{serviceInformer}, endpointSlices{sliceInformer}
	available, err := remote.New(followed{a.informer}, serviceList, sliceList, a.cfg.Client, nil, a.cfg.Certificate, a.cfg.Services, a.metrics)
	if err != nil {
		return fmt.Errorf("aggregation: availability: %w", err)
	}
	o.discovery = apiserver.NewDiscoveryManager(a.cfg.Discovery.WithSource(discoveryendpoint.AggregatorSource))
	if o.openapi, err = newOpenAPI(a); err != nil {
		return err
	}
	for _, informer := range []cache.SharedIndexInformer{serviceInformer, sliceInformer} {
		o.group.Go(func() { informer.RunWithContext(o.ctx) })
	}
	o.group.Go(func() { available.Run(checkers, o.ctx.Done()) })
	o.group.Go(func() { o.discovery.Run(o.ctx.Done(), nil) })
	o.group.Go(func() { o.openapi.run(o.ctx) })
	// Availability goes by these: nothing is looked at before.
	for _, informer := range []cache.SharedIndexInformer{serviceInformer, sliceInformer} {
		select {
		case <-informer.HasSyncedChecker().Done():
		case <-o.ctx.Done():
		}
	}
	a.log.Info("other API servers are aggregated from now on")
	return nil
}

// wait returns when all that was started has ended, once the context has.
func (o *others) wait() {
	o.mu.Lock() // a start under way
	o.mu.Unlock()
	o.group.Wait()
}

// take tells of an APIService that is new or has changed.
func (o *others) take(s *apiregistrationv1.APIService, h *remoteHandler) error {
	o.discovery.AddAPIService(s, bounded(h.always()))
	return o.openapi.take(s, bounded(h))
}

// leave tells of one that is gone, or is served here.
func (o *others) leave(name string) {
	o.discovery.RemoveAPIService(name)
	o.openapi.leave(name)
}
