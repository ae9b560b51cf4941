package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	dynamicclient "k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/api/admission"
	"pintle.dev/pintle/kernel/api/admission/dynamic"
	"pintle.dev/pintle/kernel/api/admission/podtopologylabels"
	"pintle.dev/pintle/kernel/api/admission/policystatus"
	"pintle.dev/pintle/kernel/api/auth/authentication"
	"pintle.dev/pintle/kernel/api/auth/authorization"
	"pintle.dev/pintle/kernel/api/auth/bootstraptoken"
	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/node"
	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/kernel/api/auth/token"
	"pintle.dev/pintle/kernel/api/auth/tokensecrets"
	"pintle.dev/pintle/kernel/api/flowcontrol"
)

// secure makes who may do what: the client and the informers that the checks
// read by, the RBAC index, and service-account tokens.
func (s *Server) secure() error {
	cfg := s.ClientConfig(&user.DefaultInfo{Name: user.APIServerUser, Groups: loopbackGroups})
	// Endpoints are deprecated, and served all the same.
	cfg.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("loopback client: %w", err)
	}
	s.client = client
	if s.starter, err = kubernetes.NewForConfig(s.startConfig()); err != nil {
		return fmt.Errorf("loopback client of the start: %w", err)
	}
	parameters, err := dynamicclient.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("loopback client of parameters: %w", err)
	}
	s.informers = informers.NewSharedInformerFactory(client, 0)
	if err := s.informDirectly(); err != nil {
		return err
	}
	if !s.cfg.NoPriorityAndFairness {
		s.turns = flowcontrol.New(s.informers, client, s.cfg.MaxInFlight+s.cfg.MaxMutatingInFlight)
	}
	s.rbac = rbac.NewIndex()
	if err := s.rbac.Follow(s.informers); err != nil {
		return fmt.Errorf("rbac: %w", err)
	}
	issuer := "https://kubernetes.default.svc." + s.cfg.ClusterDomain
	audiences := []string{issuer}
	keys := &token.Keys{}
	if s.credentials, err = credentials.Open(s.stopping, credentials.Options{
		PKI: s.pki, Keys: keys, KeyFiles: s.cfg.ServiceAccountKeyFiles, Shared: s.sharedCredentials(), Logger: s.log,
	}); err != nil {
		return err
	}
	signer, err := token.NewIssuer(issuer, keys)
	if err != nil {
		return err
	}
	if s.tokens, err = token.NewREST(token.RESTConfig{Issuer: signer, Getter: s, Audiences: audiences, MaxExpiration: s.cfg.MaxTokenExpiration}); err != nil {
		return err
	}
	keysURL := "https://" + net.JoinHostPort(s.cfg.AdvertiseAddress, strconv.Itoa(s.Port())) + "/openid/v1/jwks"
	if s.keys, err = token.NewDiscovery(issuer, keysURL, keys); err != nil {
		return err
	}
	bearer, err := token.NewAuthenticator(token.Config{
		Issuers: []string{issuer}, Keys: keys, Audiences: audiences, Getter: s,
	})
	if err != nil {
		return err
	}
	s.audiences = audiences
	s.nodes = node.New(s.informers.Core().V1().PersistentVolumeClaims())
	if s.authz, err = authorization.New(authorization.Options{
		File: s.cfg.AuthorizationConfig, Node: s.nodes, RBAC: rbac.New(s.rbac), Own: isKernelPart, ServerID: serverID(), Logger: s.log,
	}); err != nil {
		return err
	}
	if err := s.openWays(&token.LegacyAuthenticator{Keys: keys, Audiences: audiences, Getter: s, Used: s.noteUse, Logger: s.log}, bearer); err != nil {
		return err
	}
	if err := s.fillTokenSecrets(signer); err != nil {
		return err
	}
	guard := rbac.NewGuard(s.rbac, s.authz, client.RbacV1())
	for _, resource := range []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"} {
		if store, ok := s.stores[schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}]; ok {
			guard.Install(store)
		}
	}
	discovers, err := s.discovers()
	if err != nil {
		return fmt.Errorf("loopback client of discovery: %w", err)
	}
	mapper := dynamic.NewMapper(discovers)
	if err := s.guardParams(); err != nil {
		return err
	}
	configurable := dynamic.Config{
		Dynamic: parameters, Mapper: mapper, Authorizer: s.authz, Services: s.services(), Own: s.unasked, Tracing: s.cfg.Tracing,
	}
	s.admit, err = admission.NewChain(admission.Deps{Metrics: s.admissions, Client: client, Pods: s.GetPod, Informers: s.informers, Authorizer: s.authz, Stop: s.stopping.Done(), Dynamic: configurable,
		Plugins: s.cfg.Plugins, PluginHost: s.cfg.PluginHost, Review: s.cfg.Admission, Enable: s.cfg.EnableAdmission, Disable: s.cfg.DisableAdmission, ConfigFile: s.cfg.AdmissionConfig, PodSecurity: s.cfg.PodSecurity, EventRateLimit: s.cfg.EventRateLimit, Own: standsFor(user.APIServerUser, s.cfg.PluginHost)})
	if err != nil {
		return err
	}
	s.binding.ends = s.admit.Ends
	s.policies, err = policystatus.New(s.informers.Admissionregistration().V1().ValidatingAdmissionPolicies(), client.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		&validating.TypeChecker{SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: discovers}, RestMapper: mapper}, s.log)
	if !slices.Contains(s.cfg.DisableAdmission, "PodTopologyLabels") {
		s.binding.topology = podtopologylabels.New(s.informers).Of
	}
	return err
}

// noteUse writes to a Secret the day on which its token was used. No webhook is asked:
// one that uses such a token itself would be asked again and again.
func (s *Server) noteUse(ctx context.Context, secret *corev1.Secret, day string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID, "labels": map[string]string{token.LastUsedLabel: day}}})
	if err != nil {
		return err
	}
	_, err = s.starter.CoreV1().Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// fillTokenSecrets makes what fills Secrets of service accounts' tokens.
func (s *Server) fillTokenSecrets(issuer *token.Issuer) error {
	source, err := s.Source(corev1.SchemeGroupVersion.WithResource("secrets"), fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)))
	if err != nil {
		return err
	}
	s.tokenSecrets, err = tokensecrets.New(tokensecrets.Config{
		Client: s.client.CoreV1(), Secrets: source, Accounts: s.informers.Core().V1().ServiceAccounts(), Issuer: issuer, CA: s.pki.CAPEM(), Logger: s.log,
	})
	return err
}

// openWays makes the ways to say who one is.
func (s *Server) openWays(service ...authenticator.Token) error {
	o := authentication.Options{
		Files: s.cfg.Authentication, Identity: authenticator.RequestFunc(authenticateIdentity), ClusterCA: s.pki.CAPool(), CAPEM: s.pki.CAPEM(),
		Service: service, Audiences: s.audiences, Issuers: s.audiences, EverybodyMay: s.authz.AllowsAll(), ServerID: serverID(), Logger: s.log,
	}
	if s.cfg.BootstrapTokens {
		o.Bootstrap = &bootstraptoken.Authenticator{Secret: s.GetSecret}
	}
	var err error
	if s.ways, err = authentication.New(s.stopping, o); err != nil {
		return err
	}
	// Around all ways, of which several take certificates.
	if err = s.findMembers(); err != nil {
		return err
	}
	s.authn = s.pki.Guard().Authenticator(s.fromMembers(s.ways.Request()))
	return nil
}

// sharedCredentials is where kernels of one cluster keep theirs; nil where this one is alone.
func (s *Server) sharedCredentials() credentials.Shared {
	if shared, ok := s.cfg.Backend.(credentials.Shared); ok && s.cfg.Backend.Shared() {
		return shared
	}
	return nil
}

// informed are the resources that authorization and admission follow. Each is
// held in memory as a whole, which is why pods are not among them: of those on
// nodes their relations are kept (auth/node).
var informed = []schema.GroupResource{
	{Resource: "namespaces"},
	{Resource: "nodes"},
	{Resource: "serviceaccounts"},
	{Resource: "limitranges"},
	{Resource: "resourcequotas"},
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"},
	{Group: "storage.k8s.io", Resource: "storageclasses"},
	{Group: "node.k8s.io", Resource: "runtimeclasses"},
	{Group: "networking.k8s.io", Resource: "ingressclasses"},
	{Group: admissionv1.GroupName, Resource: "validatingwebhookconfigurations"},
	{Group: admissionv1.GroupName, Resource: "mutatingwebhookconfigurations"},
	{Group: admissionv1.GroupName, Resource: "validatingadmissionpolicies"},
	{Group: admissionv1.GroupName, Resource: "validatingadmissionpolicybindings"},
	{Group: admissionv1.GroupName, Resource: "mutatingadmissionpolicies"},
	{Group: admissionv1.GroupName, Resource: "mutatingadmissionpolicybindings"},
	{Group: flowcontrolv1.GroupName, Resource: "flowschemas"},
	{Group: flowcontrolv1.GroupName, Resource: "prioritylevelconfigurations"},
	{Group: rbacv1.GroupName, Resource: "roles"},
	{Group: rbacv1.GroupName, Resource: "rolebindings"},
	{Group: rbacv1.GroupName, Resource: "clusterroles"},
	{Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
}

// informDirectly lets the shared informers read from the stores instead of
// through HTTP, so that they hold the objects that the stores hold anyway.
// Naming a resource here is what starts its informer.
func (s *Server) informDirectly() error {
	for _, gr := range informed {
		kind, ok := s.kinds[gr]
		if !ok {
			return fmt.Errorf("informer of %s: it is not served", gr)
		}
		lw, err := s.Source(gr.WithVersion(kind.GVK.Version), nil)
		if err != nil {
			return err
		}
		s.informers.InformerFor(kind.New(), func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(lw, kind.New(), resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
	}
	return nil
}

// followPods tells the node authorizer of the pods that have a node, as long as the
// server runs.
func (s *Server) followPods() error {
	lw, err := s.Source(corev1.SchemeGroupVersion.WithResource("pods"), fields.OneTermNotEqualSelector("spec.nodeName", ""))
	if err != nil {
		return fmt.Errorf("node authorizer: %w", err)
	}
	s.background.Go(func() { s.nodes.Follow(s.stopping, lw) })
	return nil
}

func (s *Server) authenticate(c *genericapiserver.RecommendedConfig) {
	c.Authentication = genericapiserver.AuthenticationInfo{APIAudiences: s.audiences, Authenticator: s.authn, RequestHeaderConfig: s.ways.FrontProxy()}
	c.Authorization = genericapiserver.AuthorizationInfo{Authorizer: notingForbidden{s.authz}}
	c.RuleResolver = s.authz
	c.AdmissionControl = s.admit
}

// get reads one object from its store. The store's errors name the resource of
// the request in the context, which may be about another one: a token of a
// service account looks for the pod it is bound to.
func get[T runtime.Object](ctx context.Context, s *Server, gr schema.GroupResource, namespace, name string) (T, error) {
	var none T
	ctx = asRequest(ctx, "get", gr.WithVersion(s.kinds[gr].GVK.Version), namespace, name)
	obj, err := s.stores[gr].Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	out, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("get %s %s/%s: unexpected type %T", gr, namespace, name, obj)
	}
	return out, nil
}

// inNamespace reads one object of the request's namespace.
func inNamespace[T runtime.Object](ctx context.Context, s *Server, gr schema.GroupResource, name string) (T, error) {
	return get[T](ctx, s, gr, request.NamespaceValue(ctx), name)
}

var _ token.Getter = (*Server)(nil)

// GetServiceAccount reads the object that a token is bound to.
func (s *Server) GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return get[*corev1.ServiceAccount](ctx, s, corev1.Resource("serviceaccounts"), namespace, name)
}

// GetPod reads the object that a token is bound to.
func (s *Server) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return get[*corev1.Pod](ctx, s, corev1.Resource("pods"), namespace, name)
}

// GetSecret reads the object that a token is bound to.
func (s *Server) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return get[*corev1.Secret](ctx, s, corev1.Resource("secrets"), namespace, name)
}

// GetNode reads the object that a token is bound to.
func (s *Server) GetNode(ctx context.Context, name string) (*corev1.Node, error) {
	return get[*corev1.Node](ctx, s, corev1.Resource("nodes"), "", name)
}
