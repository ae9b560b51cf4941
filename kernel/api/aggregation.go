package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/tools/cache"
	typed "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/api/aggregation"
	"pintle.dev/pintle/kernel/api/aggregation/trust"
	"pintle.dev/pintle/kernel/api/auth/pki"
)

// aggregate makes what sends requests to other API servers. It comes after the stores
// and the server of custom resources.
func (s *Server) aggregate(storage map[schema.GroupVersion]map[string]rest.Storage, crds *apiextensions.CustomResourceDefinitions) error {
	client, err := typed.NewForConfig(s.startConfig())
	if err != nil {
		return fmt.Errorf("loopback client of APIServices: %w", err)
	}
	s.aggregator, err = aggregation.New(aggregation.Config{
		Source:      func(gvr schema.GroupVersionResource) (cache.ListerWatcher, error) { return s.Source(gvr, nil) },
		Client:      client,
		CRDs:        crds.Informers.Apiextensions().V1().CustomResourceDefinitions(),
		Builtin:     append(slices.Collect(maps.Keys(storage)), apiextensionsv1.SchemeGroupVersion),
		Discovery:   s.generic.AggregatedDiscoveryGroupManager,
		OpenAPI:     s.docs.v2Config,
		Certificate: s.frontProxyCertificate,
		Plugins:     s.cfg.PluginServers,
		Cluster:     s.pki.CAPEM(),
		Services:    s.services(),
		Logger:      s.log,
	})
	return err
}

// aggregated sends requests for what other servers serve there.
func (s *Server) aggregated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { s.aggregator.Serve(w, req, next) })
}

// servedHere tells the group versions that no other server can have.
func (s *Server) servedHere(gv schema.GroupVersion) bool {
	return s.aggregator != nil && s.aggregator.Serves(gv)
}

// ServesGroup reports whether a version of a group is served here, which is built in.
func (s *Server) ServesGroup(group string) bool { return s.aggregator.ServesGroup(group) }

// frontProxyCertificate is what other servers know this one by.
func (s *Server) frontProxyCertificate() (cert, key []byte) {
	front, err := s.pki.FrontProxy()
	if err != nil {
		s.log.Error("requests to other API servers go without a client certificate", "error", err)
		return nil, nil
	}
	return front.Client().CurrentCertKeyContent()
}

// listener is told when a certificate or an authority is another.
type listener func()

// Enqueue implements dynamiccertificates.Listener.
func (l listener) Enqueue() { l() }

func (s *Server) hookAggregation() error {
	return firstError(
		s.hook("apiservice-registration-controller", func(ctx context.Context) error {
			ready := make(chan struct{})
			s.background.Go(func() { s.aggregator.Route(s.stopping, ready) })
			select {
			case <-ready:
			case <-ctx.Done():
			}
			return nil
		}),
		s.hook("kube-apiserver-autoregistration", func(context.Context) error {
			s.background.Go(func() {
				if err := s.aggregator.Register(s.stopping); err != nil {
					s.log.Error("the API's own group versions are not registered as APIServices", "error", err)
				}
			})
			return nil
		}),
		s.hook("start-cluster-authentication-info-controller", func(context.Context) error {
			source, err := s.Source(corev1.SchemeGroupVersion.WithResource("configmaps"),
				fields.AndSelectors(fields.OneTermEqualSelector("metadata.namespace", metav1.NamespaceSystem), fields.OneTermEqualSelector("metadata.name", trust.Name)))
			if err != nil {
				return err
			}
			keeper := trust.Keeper{Client: s.starter.CoreV1(), Source: source, Clock: clock.RealClock{}, Logger: s.log, Trust: s.trust}
			if authorities, ok := s.ways.ClientCAs().(dynamiccertificates.Notifier); ok {
				keeper.Changes = func(changed func()) { authorities.AddListener(listener(changed)) }
			}
			s.whenReady(keeper.Keep)
			return nil
		}),
	)
}

// trust opens the front proxy's directory, which is made at the first start.
func (s *Server) trust() (trust.Trust, error) {
	front, err := s.pki.FrontProxy()
	if err != nil {
		return trust.Trust{}, err
	}
	s.recertifies.Do(func() { front.Client().AddListener(listener(s.aggregator.Recertify)) })
	return trust.FrontProxy(pki.FrontProxyName, s.ways.ClientCAs().CurrentCABundleContent(), front.CAPEM()), nil
}
