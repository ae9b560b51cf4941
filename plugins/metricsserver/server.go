package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/compatibility"
	"sigs.k8s.io/metrics-server/pkg/api"
	generated "sigs.k8s.io/metrics-server/pkg/api/generated/openapi"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"pintle.dev/pintle/sdk/apiserver"
	"pintle.dev/pintle/sdk/apiserver/generic"
)

// level is the version of Kubernetes whose behaviour the server library has.
const level = "1.36"

// New builds the server of resource metrics.
func New(c *apiserver.Context) (apiserver.Instance, error) {
	config, err := readConfig(c.Config)
	if err != nil {
		return apiserver.Instance{}, err
	}
	objects, err := metadata.NewForConfig(c.RESTConfig)
	if err != nil {
		return apiserver.Instance{}, fmt.Errorf("metadata client: %w", err)
	}
	agents, err := newAgents(c.RESTConfig)
	if err != nil {
		return apiserver.Instance{}, err
	}
	podsOf := metadatainformer.NewSharedInformerFactoryWithOptions(objects, 0, metadatainformer.WithTransform(slim))
	nodesOf := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(slim))
	pods, nodes := podsOf.ForResource(corev1.SchemeGroupVersion.WithResource("pods")), nodesOf.Core().V1().Nodes()
	synced := []cache.InformerSynced{pods.Informer().HasSynced, nodes.Informer().HasSynced}

	server, err := newServer(c)
	if err != nil {
		return apiserver.Instance{}, err
	}
	store := storage.NewStorage(config.MetricResolution.Duration)
	requirements, _ := config.nodes.Requirements()
	if err := api.Install(store, pods.Lister(), nodes.Lister(), server, requirements); err != nil {
		return apiserver.Instance{}, fmt.Errorf("API of metrics: %w", err)
	}
	scrape := &scraper{
		nodes: nodes.Lister(), selected: config.nodes, ask: agents.ask, store: store.Store, log: c.Logger,
		timeout: config.KubeletRequestTimeout.Duration, every: config.MetricResolution.Duration, measured: make(chan struct{}),
	}
	instance := generic.Instance(server)
	instance.Handler = whenMeasured(instance.Handler, scrape.measured)
	serve := instance.Run
	instance.Run = func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		podsOf.Start(ctx.Done())
		nodesOf.Start(ctx.Done())
		var wg sync.WaitGroup
		wg.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), synced...) {
				scrape.run(ctx)
			}
		})
		err := serve(ctx)
		cancel()
		wg.Wait()
		podsOf.Shutdown()
		nodesOf.Shutdown()
		return err
	}
	return instance, nil
}

// firstWait bounds how long requests wait for the first measurements.
const firstWait = 10 * time.Second

// whenMeasured has requests for metrics wait until there may be some, at most firstWait from
// now on: the process may have been started by the request.
func whenMeasured(next http.Handler, measured <-chan struct{}) http.Handler {
	over := make(chan struct{})
	time.AfterFunc(firstWait, func() { close(over) })
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/apis/metrics.k8s.io/v1beta1/") {
			select {
			case <-measured:
			case <-over:
			case <-req.Context().Done():
			}
		}
		next.ServeHTTP(w, req)
	})
}

// newServer makes a server of k8s.io/apiserver that has no group yet.
func newServer(c *apiserver.Context) (*genericapiserver.GenericAPIServer, error) {
	config := genericapiserver.NewRecommendedConfig(api.Codecs)
	config.EffectiveVersion = compatibility.NewEffectiveVersionFromString(level, level, level)
	config.ExternalAddress = "localhost:443"
	config.EnableIndex, config.EnableProfiling, config.EnableMetrics = false, false, false
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generated.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(api.Scheme, scheme.Scheme))
	config.OpenAPIV3Config.Info.Title = "metrics-server"
	generic.Configure(c, config)
	server, err := config.Complete().New("metrics-server", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return server, nil
}

// slim keeps of a cached object what selectors go by.
func slim(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
		m.SetAnnotations(nil)
		m.SetOwnerReferences(nil)
		m.SetFinalizers(nil)
	}
	if node, ok := obj.(*corev1.Node); ok {
		node.Spec = corev1.NodeSpec{}
		node.Status = corev1.NodeStatus{Conditions: ready(node)}
	}
	return obj, nil
}

func ready(node *corev1.Node) []corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: metav1.Time{}}}
		}
	}
	return nil
}
