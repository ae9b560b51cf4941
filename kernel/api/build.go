package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	openapifeatures "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/configz"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/api/admission"
	"pintle.dev/pintle/kernel/api/admission/dynamic"
	"pintle.dev/pintle/kernel/api/admission/measured"
	"pintle.dev/pintle/kernel/api/admission/policystatus"
	"pintle.dev/pintle/kernel/api/aggregation"
	"pintle.dev/pintle/kernel/api/audit"
	"pintle.dev/pintle/kernel/api/auth/authentication"
	"pintle.dev/pintle/kernel/api/auth/authorization"
	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/node"
	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/kernel/api/auth/token"
	"pintle.dev/pintle/kernel/api/auth/tokensecrets"
	"pintle.dev/pintle/kernel/api/clusterips"
	"pintle.dev/pintle/kernel/api/customopenapi"
	"pintle.dev/pintle/kernel/api/flowcontrol"
	"pintle.dev/pintle/kernel/api/openapi"
	"pintle.dev/pintle/kernel/api/openapiui"
	"pintle.dev/pintle/kernel/api/patchbounds"
	"pintle.dev/pintle/kernel/api/peerproxy"
	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/resources/ipalloc"
	"pintle.dev/pintle/kernel/api/tokentracking"
	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/kernel/revocation/published"
	pluginv1alpha1 "pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// parts is what New builds from the configuration.
type parts struct {
	scheme *runtime.Scheme
	pki    *pki.PKI
	// credentials follow the directory of keys while the server runs.
	credentials *credentials.Keeper
	kinds       map[schema.GroupResource]resources.Kind
	stores      map[schema.GroupResource]*genericregistry.Store
	generic     *genericapiserver.GenericAPIServer
	extensions  *apiextensions.CustomResourceDefinitions
	informers   informers.SharedInformerFactory
	// nodes reads the pods after the start, which takes a while where there are many:
	// only nodes wait for it, and not the kernel's being ready.
	nodes        *node.Authorizer
	background   sync.WaitGroup // ends when stopping does
	client       kubernetes.Interface
	starter      kubernetes.Interface // writes what the start needs, past webhooks and policies
	rbac         *rbac.Index
	clusterIPs   clusterips.Records
	binding      *bindingREST
	creates      later
	statuses     later
	deletes      later
	listener     net.Listener
	docs         *documents
	kubelets     *kubelets
	tokens       *token.REST
	keys         *token.Discovery
	authn        authenticator.Request
	ways         *authentication.Ways
	tokenSecrets *tokensecrets.Controller
	// possible are the resources that could be served, whatever is configured.
	possible   []schema.GroupVersionResource
	authz      *authorization.Chain
	admit      *admission.Chain
	admissions *measured.Metrics
	policies   *policystatus.Controller
	audiences  []string
	encryption *encryption             // nil: nothing is encrypted
	turns      *flowcontrol.Controller // nil: requests are not told apart
	aggregator *aggregation.Aggregator
	members    *peerproxy.Members // nil: no other may serve the cluster
	peers      *peerproxy.Proxy   // nil with members
	// recertifies has the aggregator told of certificates of the front proxy, once.
	recertifies sync.Once
	limits      clientLimits
	running     atomic.Bool
	fail        context.CancelCauseFunc
	stopping    context.Context
	stopAll     context.CancelFunc
}

// maxBody bounds a request's body, as upstream does.
const maxBody = 3 << 20

// loopback is who the server itself acts as.
var loopbackGroups = []string{user.SystemPrivilegedGroup, user.AllAuthenticated}

// New checks the configuration, makes the certificates if there are none,
// builds the stores and takes the port, so that a fault of any of them is
// found before anything runs.
func New(cfg Config) (_ *Server, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Logger, ready: make(chan struct{})}
	s.stopping, s.stopAll = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.stopAll()
			if s.listener != nil {
				s.listener.Close()
			}
		}
	}()
	if s.listener, err = net.Listen("tcp", net.JoinHostPort(cfg.BindAddress, strconv.Itoa(cfg.Port))); err != nil {
		return nil, fmt.Errorf("api server: take port %d of %s: %w; choose another port, or 0 for a free one", cfg.Port, cfg.BindAddress, err)
	}
	serviceIP, err := firstServiceIP(cfg.ServiceCIDR)
	if err != nil {
		return nil, err
	}
	if s.pki, err = pki.Open(pki.Config{
		Dir:           filepath.Join(cfg.DataDir, "pki"),
		AdvertiseIPs:  []net.IP{net.ParseIP(cfg.AdvertiseAddress), net.ParseIP(cfg.BindAddress)},
		ServiceIP:     serviceIP,
		ClusterDomain: cfg.ClusterDomain,
	}); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	if err := s.build(); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	if err := s.writeKubeconfigs(); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	return s, nil
}

// writeKubeconfigs writes those of the administrators, of the certificates of now.
func (s *Server) writeKubeconfigs() error {
	return errors.Join(s.pki.WriteAdminKubeconfig(s.AdminKubeconfig(), s.URL()),
		s.pki.WriteSuperAdminKubeconfig(s.SuperAdminKubeconfig(), s.URL()))
}

// firstServiceIP is the address of the kubernetes service.
func firstServiceIP(cidr string) (net.IP, error) {
	ranges, err := dualstack.Ranges(cidr)
	if err != nil {
		return nil, fmt.Errorf("api server: service CIDR %q: %w", cidr, err)
	}
	return ranges[0].Addr().Next().AsSlice(), nil
}

func (s *Server) build() error {
	claims, _ := s.cfg.Backend.(ipalloc.Claims)
	kinds, err := servedKinds(resources.Options{ServiceCIDR: s.cfg.ServiceCIDR, NodePortRange: s.cfg.NodePortRange, Addresses: &s.clusterIPs, Claims: claims}, s.servedHere, s.deviceAccess())
	if err != nil {
		return err
	}
	if s.scheme, err = newScheme(kinds, pluginv1alpha1.AddToScheme, addDefaults); err != nil {
		return err
	}
	s.kinds = make(map[schema.GroupResource]resources.Kind, len(kinds))
	for _, k := range kinds {
		s.kinds[groupResource(k)] = k
	}
	if s.encryption, err = s.loadEncryption(s.stopping); err != nil {
		return err
	}
	codecs := newCodecs(s.scheme)
	options := s.encrypted(newStorageOptions(s.cfg.Backend, s.scheme, codecs, func(gr schema.GroupResource) (schema.GroupVersion, runtime.Object, bool) {
		k, ok := s.kinds[gr]
		if !ok {
			return schema.GroupVersion{}, nil, false
		}
		return k.GVK.GroupVersion(), k.New(), true
	}))
	s.stores = make(map[schema.GroupResource]*genericregistry.Store, len(kinds))
	for _, k := range kinds {
		if s.stores[groupResource(k)], err = newStore(k, options); err != nil {
			return err
		}
	}
	s.clusterIPs.Use(s.stores[networkingv1.Resource("ipaddresses")], s.stores[networkingv1.Resource("servicecidrs")], s.stores[corev1.Resource("services")])
	if err := s.checkReadable(s.stopping); err != nil {
		return err
	}
	s.binding = &bindingREST{store: s.stores[schema.GroupResource{Resource: "pods"}]}
	s.admissions = measured.New()
	s.kubelets = newKubelets(s.pki, s.GetNode)
	if err := s.secure(); err != nil {
		return err
	}
	generic, err := s.genericConfig(codecs, options)
	if err != nil {
		return err
	}
	crds, err := s.buildExtensions(*generic)
	if err != nil {
		return err
	}
	s.extensions = crds
	completed := generic.Complete()
	if s.generic, err = completed.New("kube-apiserver", crds.GenericAPIServer); err != nil {
		return err
	}
	s.generic.Handler.GoRestfulContainer.Router(&router{})
	encoding := sharedEncoding{NegotiatedSerializer: codecs, scheme: s.scheme}
	s.docs = &documents{
		definitions: openapifeatures.GetOpenAPIDefinitionsWithoutDisabledFeatures(definitions),
		namer:       apiopenapi.NewDefinitionNamer(s.scheme, apiextensions.Scheme),
		services: func() []*restful.WebService {
			return append(s.generic.Handler.GoRestfulContainer.RegisteredWebServices(),
				withoutVersion(crds.GenericAPIServer.Handler.GoRestfulContainer.RegisteredWebServices())...)
		},
		crds:    crds.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister(),
		version: GitVersion,
	}
	storage, err := s.enabled(s.storage(encoding))
	if err != nil {
		return err
	}
	if err := s.aggregate(storage, crds); err != nil {
		return err
	}
	everywhere, err := s.proxyToPeers(crds)
	if err != nil {
		return err
	}
	root := discoveryendpoint.WrapAggregatedDiscoveryToHandler(http.HandlerFunc(s.aggregator.Groups), s.generic.AggregatedDiscoveryGroupManager, everywhere)
	s.generic.Handler.GoRestfulContainer.Add(root.GenerateWebService(genericapiserver.APIGroupPrefix, metav1.APIGroupList{}))
	var creates *later
	if !s.cfg.Backend.Shared() && s.cfg.Tracing == nil { // the machinery makes spans
		creates = &s.creates
	}
	if err := (installer{
		creates: creates, pods: s.binding.store, podsAsked: func() bool { return s.admit.Asked(createsOfPods) },
		statuses: &s.statuses, statusesReviewed: func() bool { return s.admit.Reviewed(updatesOfStatus) },
		deletes: &s.deletes, deletesReviewed: func() bool { return s.admit.Reviewed(deletesOfPods) },
		server: s.generic, scheme: s.scheme, kinds: s.kinds, serializer: encoding, docs: s.docs,
		admit: generic.AdmissionControl, minTimeout: time.Duration(generic.MinRequestTimeout) * time.Second, maxBody: maxBody,
	}).install(storage); err != nil {
		return err
	}
	v3, err := s.docs.install(s.generic.Handler.NonGoRestfulMux)
	if err != nil {
		return err
	}
	s.generic.Handler.NonGoRestfulMux.HandleFunc("/.well-known/openid-configuration", s.keys.Configuration)
	s.generic.Handler.NonGoRestfulMux.HandleFunc("/openid/v1/jwks", s.keys.Keys)
	page := new(openapiui.Handler)
	s.generic.Handler.NonGoRestfulMux.HandlePrefix(openapiui.Path, page)
	s.generic.Handler.NonGoRestfulMux.UnlistedHandle(strings.TrimSuffix(openapiui.Path, "/"), page)
	if s.cfg.StoreHandler != nil {
		s.generic.Handler.NonGoRestfulMux.HandlePrefix(storePath, s.cfg.StoreHandler)
	}
	if s.cfg.InspectHandler != nil {
		s.generic.Handler.NonGoRestfulMux.HandlePrefix(inspectPath, s.cfg.InspectHandler)
	}
	if s.cfg.ConfigzHandler != nil {
		s.generic.Handler.NonGoRestfulMux.Handle(configz.DefaultConfigzPath, s.cfg.ConfigzHandler)
	}
	if err := customopenapi.Follow(crds.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer(), v3, s.log); err != nil {
		return err
	}
	// Made before the informers start, which then call it.
	aggregator, err := rbac.NewAggregator(s.client.RbacV1(), s.informers.Rbac().V1().ClusterRoles(), s.log)
	if err != nil {
		return err
	}
	return firstError(
		s.hook("start-system-objects-controller", s.bootstrap),
		s.hook("priority-and-fairness-config-producer", s.startTurns),
		s.hookPeers(),
		s.hookAggregation(),
		s.hookMembers(),
		s.hookIdentity(),
		s.hook("start-encryption-provider-config-automatic-reload", func(context.Context) error {
			if s.encryption != nil {
				s.background.Go(func() { s.encryption.follow(s.stopping) })
			}
			return nil
		}),
		s.hook("renew-certificates", func(context.Context) error {
			s.background.Go(func() { s.pki.Keep(s.stopping, s.log, clock.RealClock{}, s.writeKubeconfigs) })
			return nil
		}),
		s.hook("follow-credentials", func(context.Context) error {
			s.background.Go(func() { s.credentials.Run(s.stopping) })
			return nil
		}),
		s.hook("publish-revocations", func(context.Context) error {
			s.whenReady(published.Publisher{
				Client: s.starter.CoreV1(), Guard: s.pki.Guard(), CA: s.pki.CA(), Clock: clock.RealClock{}, Logger: s.log,
				Sign: func(l *revocation.List) ([]byte, error) { _, data, err := s.pki.SignRevocations(l); return data, err },
			}.Keep)
			return nil
		}),
		s.hook("follow-access-configuration", func(context.Context) error {
			s.background.Go(func() { s.authz.Follow(s.stopping) })
			s.background.Go(func() { s.ways.Follow(s.stopping) })
			return nil
		}),
		s.hook("serviceaccount-token-controller", func(context.Context) error {
			s.background.Go(func() { s.tokenSecrets.Run(s.stopping) })
			return nil
		}),
		s.hook("start-legacy-token-tracking-controller", func(context.Context) error {
			s.whenReady((&tokentracking.Keeper{Client: s.client, Logger: s.log}).Run)
			return nil
		}),
		s.hook("node/follow-pods", func(context.Context) error {
			return s.followPods()
		}),
		s.hook("start-service-ip-repair-controllers", s.repairClusterIPs),
		s.hook("validatingadmissionpolicy-status", func(context.Context) error {
			s.background.Go(func() { s.policies.Run(s.stopping) })
			return nil
		}),
		s.hook("rbac/aggregate-cluster-roles", func(context.Context) error {
			s.background.Go(func() { _ = aggregator.Run(s.stopping) })
			return nil
		}),
		s.hook("rbac/bootstrap-roles", func(ctx context.Context) error {
			written, err := rbac.Bootstrap(ctx, s.starter)
			if err != nil {
				return err
			}
			if err := s.awaitRights(ctx, written, rightsGrace); err != nil && ctx.Err() == nil {
				s.log.Warn("the default roles and bindings just written are not all in force: somebody takes them away again", "waited", rightsGrace)
			}
			return ctx.Err()
		}),
	)
}

// withoutVersion leaves out what the main server has of its own.
func withoutVersion(in []*restful.WebService) []*restful.WebService {
	var out []*restful.WebService
	for _, ws := range in {
		if ws.RootPath() != "/version" {
			out = append(out, ws)
		}
	}
	return out
}

// definitions joins the OpenAPI definitions of built-in types with those of
// custom resource definitions.
func definitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	out := crdopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(out, openapi.GetOpenAPIDefinitions(ref))
	return out
}

// genericConfig is what both servers of the chain share.
func (s *Server) genericConfig(codecs serializer.CodecFactory, options generic.RESTOptionsGetter) (*genericapiserver.RecommendedConfig, error) {
	c := genericapiserver.NewRecommendedConfig(codecs)
	c.EffectiveVersion = newLevel()
	s.limits = newClientLimits(s.cfg.Limits, codecs)
	record, err := audit.New(s.cfg.Audit)
	if err != nil {
		return nil, err
	}
	c.AuditBackend, c.AuditPolicyRuleEvaluator = record.Backend, record.Policy
	c.SecureServing = &genericapiserver.SecureServingInfo{
		Listener: s.limits.connections.Listener(s.pki.Guard().Listener(s.listener)), Cert: s.pki.ServingLeaf(), ClientCA: s.ways.Authorities(), HTTP2MaxStreamsPerConnection: 1000,
	}
	if s.cfg.Flags != nil {
		c.Flagz = flags(s.cfg.Flags)
	}
	c.PublicAddress = net.ParseIP(s.cfg.AdvertiseAddress)
	c.ExternalAddress = net.JoinHostPort(s.cfg.AdvertiseAddress, strconv.Itoa(s.Port()))
	c.LoopbackClientConfig = s.ClientConfig(&user.DefaultInfo{Name: user.APIServerUser, Groups: loopbackGroups})
	c.RESTOptionsGetter = options
	c.DiscoveryAddresses = discovery.DefaultAddresses{DefaultAddress: c.ExternalAddress}
	c.AggregatedDiscoveryGroupManager = discoveryendpoint.NewResourceManager("apis")
	c.MergedResourceConfig = serverstorage.NewResourceConfig()
	c.SkipOpenAPIInstallation = true
	c.EnableDiscovery = false
	c.MaxRequestsInFlight = s.cfg.MaxInFlight
	c.MaxMutatingRequestsInFlight = s.cfg.MaxMutatingInFlight
	c.MaxRequestBodyBytes = maxBody
	c.EquivalentResourceRegistry = newEquivalents()
	c.StorageObjectCountTracker = nil
	if s.turns != nil {
		c.FlowControl, c.StorageObjectCountTracker = s.turns, s.turns.Tracker
	}
	c.LongRunningFunc = withOperatorPaths(genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward")))
	longRunning := c.LongRunningFunc
	if s.cfg.Tracing != nil {
		c.TracerProvider = tracerOfOthers{s.cfg.Tracing}
	}
	metrics, err := newMetrics(append(append(s.limits.collectors(), s.pki, s.admissions, buildInfo()), s.cfg.Collectors...), s.cfg.Metrics)
	if err != nil {
		return nil, err
	}
	c.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		handler = s.statuses.before(handler) // behind the bounds of patches
		handler = patchbounds.Patches{Body: bodyOf, Refuse: refusal(codecs)}.Before(s.quantities(codecs).Before(handler))
		handler = metrics.before(s.aggregated(s.toPeers(handler)))
		return s.chained(s.endingWithServer(sendingLists(s.creates.before(s.deletes.before(handler)), codecs), longRunning), c)
	}
	c.SharedInformerFactory = s.informers
	backend := s.cfg.Backend
	c.AddReadyzChecks(healthz.NamedCheck("storage", func(*http.Request) error { return backend.ReadyCheck() }))
	if s.encryption != nil {
		c.HealthzChecks = append(c.HealthzChecks, s.encryption.transformers)
		c.AddReadyzChecks(s.encryption.transformers)
	}
	s.authenticate(c)
	return c, nil
}

// endingWithServer ends watches and streams when the server stops, which would
// else wait for their clients, and counts the other requests.
func (s *Server) endingWithServer(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if ok && longRunning(req, info) {
			ctx, cancel := context.WithCancel(req.Context())
			defer cancel()
			defer context.AfterFunc(s.stopping, cancel)()
			req = req.WithContext(ctx)
		} else {
			s.inFlight.Add(1)
			defer s.inFlight.Add(-1)
		}
		next.ServeHTTP(w, req)
	})
}

// buildExtensions makes the server of custom resources, which the main one
// delegates to.
func (s *Server) buildExtensions(c genericapiserver.RecommendedConfig) (*apiextensions.CustomResourceDefinitions, error) {
	c.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	c.SharedInformerFactory = nil
	c.EnableProfiling, c.EnableMetrics, c.EnableIndex = false, false, true
	c.Serializer = apiextensions.Codecs
	c.MergedResourceConfig = apiextensions.DefaultAPIResourceConfigSource()
	namer := apiopenapi.NewDefinitionNamer(apiextensions.Scheme)
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(crdopenapi.GetOpenAPIDefinitions, namer)
	gv := apiextensionsv1.SchemeGroupVersion
	c.RESTOptionsGetter = s.encrypted(newStorageOptions(s.cfg.Backend, apiextensions.Scheme, apiextensions.Codecs,
		func(schema.GroupResource) (schema.GroupVersion, runtime.Object, bool) {
			return gv, &apiextensionsv1.CustomResourceDefinition{}, true
		}))
	cfg := apiextensions.Config{
		GenericConfig: &c,
		ExtraConfig: apiextensions.ExtraConfig{
			CRDRESTOptionsGetter: s.encrypted(s.cfg.Backend.CRDRESTOptionsGetter()),
			MasterCount:          1,
			ServiceResolver:      s.services(),
			AuthResolverWrapper:  dynamic.BoundedClients(s.cfg.Tracing),
		},
	}
	notFound := genericapiserver.NewEmptyDelegateWithCustomHandler(http.HandlerFunc(notFound))
	out, err := cfg.Complete().New(notFound)
	if err != nil {
		return nil, fmt.Errorf("custom resource server: %w", err)
	}
	return out, nil
}

func notFound(w http.ResponseWriter, req *http.Request) { http.NotFound(w, req) }
