package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/auth/authentication"
)

func registrations(t *testing.T, s *api.Server) interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*apiregistrationv1.APIService, error)
	Create(ctx context.Context, a *apiregistrationv1.APIService, o metav1.CreateOptions) (*apiregistrationv1.APIService, error)
	Update(ctx context.Context, a *apiregistrationv1.APIService, o metav1.UpdateOptions) (*apiregistrationv1.APIService, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	List(ctx context.Context, o metav1.ListOptions) (*apiregistrationv1.APIServiceList, error)
} {
	t.Helper()
	return aggregatorclient.NewForConfigOrDie(s.ClientConfig(admin)).ApiregistrationV1().APIServices()
}

// until waits for what controllers do.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 2 minutes: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// admitted is an administrator over TLS.
func admitted(t *testing.T, s *api.Server) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// extension is another API server: it serves version v1 of a group, and answers what a
// test wants.
type extension struct {
	group  string
	server *httptest.Server

	mu       sync.Mutex
	answer   http.HandlerFunc // nil: the usual
	requests []*http.Request
}

func newExtension(t *testing.T, group string) *extension {
	t.Helper()
	e := &extension{group: group}
	e.server = httptest.NewUnstartedServer(http.HandlerFunc(e.serve))
	e.server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	e.server.StartTLS()
	t.Cleanup(func() {
		e.server.CloseClientConnections()
		e.server.Close()
	})
	return e
}

func (e *extension) respond(h http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = h
}

// respondBelow leaves the discovery of the version as usual: by it the server is asked,
// again and again, whether it is available.
func (e *extension) respondBelow(h http.HandlerFunc) {
	e.respond(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == e.path() {
			e.usual(w, req)
			return
		}
		h(w, req)
	})
}

func (e *extension) serve(w http.ResponseWriter, req *http.Request) {
	e.mu.Lock()
	e.requests = append(e.requests, req.Clone(context.Background()))
	answer := e.answer
	e.mu.Unlock()
	if answer == nil {
		answer = e.usual
	}
	answer(w, req)
}

// last is the latest request for a path.
func (e *extension) last(path string) *http.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range slices.Backward(e.requests) {
		if r.URL.Path == path {
			return r
		}
	}
	return nil
}

func (e *extension) path() string { return "/apis/" + e.group + "/v1" }

func (e *extension) usual(w http.ResponseWriter, req *http.Request) {
	send := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	switch req.URL.Path {
	case e.path():
		send(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: e.group + "/v1",
			APIResources: []metav1.APIResource{{Name: "fishes", SingularName: "fish", Kind: "Fish", Verbs: metav1.Verbs{"get", "list"}}}})
	case e.path() + "/fishes/trout":
		send(map[string]any{"apiVersion": e.group + "/v1", "kind": "Fish", "metadata": map[string]any{"name": "trout"}})
	case "/openapi/v3":
		send(map[string]any{"paths": map[string]any{
			strings.TrimPrefix(e.path(), "/"): map[string]any{"serverRelativeURL": "/openapi/v3" + e.path() + "?hash=ABC"},
			// It is not theirs to describe.
			"api/v1": map[string]any{"serverRelativeURL": "https://elsewhere.example/"},
		}})
	case "/openapi/v3" + e.path():
		send(map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": e.group, "version": "v1"}, "paths": map[string]any{}})
	case "/openapi/v2":
		send(map[string]any{"swagger": "2.0", "info": map[string]any{"title": e.group, "version": "v1"}, "paths": map[string]any{
			e.path() + "/fishes":  map[string]any{"get": map[string]any{"responses": map[string]any{"200": map[string]any{"description": "of " + e.group}}}},
			"/api/v1/namespaces/": map[string]any{"get": map[string]any{"responses": map[string]any{"200": map[string]any{"description": "taken over"}}}},
		}})
	default:
		http.NotFound(w, req)
	}
}

// register makes the Service and APIService of an extension. The Service is an
// ExternalName: it needs no proxy and no endpoint.
func (e *extension) register(t *testing.T, s *api.Server, change func(*apiregistrationv1.APIService)) {
	t.Helper()
	_, port, err := net.SplitHostPort(e.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ReplaceAll(e.group, ".", "-")
	if _, err := overTLS(t, s).CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	at := int32(number)
	o := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + e.group}, Spec: apiregistrationv1.APIServiceSpec{
		Group: e.group, Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 200, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: name, Port: &at},
	}}
	if change != nil {
		change(o)
	}
	if _, err := registrations(t, s).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// condition is what an APIService says of its availability.
func condition(t *testing.T, s *api.Server, name string) apiregistrationv1.APIServiceCondition {
	t.Helper()
	o, err := registrations(t, s).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := helper.GetAPIServiceConditionByType(o, apiregistrationv1.Available); c != nil {
		return *c
	}
	return apiregistrationv1.APIServiceCondition{}
}

func (e *extension) await(t *testing.T, s *api.Server) {
	t.Helper()
	until(t, "v1."+e.group+" is available and routed", func() bool {
		if condition(t, s, "v1."+e.group).Status != apiregistrationv1.ConditionTrue {
			return false
		}
		_, err := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).RESTClient().Get().AbsPath(e.path()).DoRaw(t.Context())
		return err == nil
	})
}

// localNames are the APIServices, which are all of this server.
func localNames(t *testing.T, s *api.Server) []string {
	t.Helper()
	list, err := registrations(t, s).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range list.Items {
		if o.Spec.Service != nil || !helper.IsAPIServiceConditionTrue(&o, apiregistrationv1.Available) {
			t.Errorf("APIService %s: %+v", o.Name, o)
		}
		out = append(out, o.Name)
	}
	return out
}

// servedNames are what the APIServices of the groups in discovery are called.
func servedNames(t *testing.T, s *api.Server) []string {
	t.Helper()
	groups, err := discovery.NewDiscoveryClientForConfigOrDie(s.ClientConfig(admin)).ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			if g.Name != apiregistrationv1.GroupName {
				out = append(out, v.Version+"."+g.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// What somebody did to the APIServices of built-in groups is undone at the next start,
// and what a kernel of another version left is taken away; meanwhile the groups are
// served as ever.
func TestAPIServicesAtStart(t *testing.T) {
	dir := t.TempDir()
	var want []string
	t.Run("first", func(t *testing.T) {
		s := start(t, dir)
		ctx, c := t.Context(), registrations(t, s)
		want = servedNames(t, s)
		until(t, fmt.Sprintf("APIServices are %v", want), func() bool { return slices.Equal(localNames(t, s), want) })
		if err := c.Delete(ctx, "v1.apps", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		batch, err := c.Get(ctx, "v1.batch", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		batch.Spec.GroupPriorityMinimum = 1
		if _, err := c.Update(ctx, batch, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(ctx, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.old.example", Labels: map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
			Spec:       apiregistrationv1.APIServiceSpec{Group: "old.example", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 100},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := servedNames(t, s); !slices.Equal(got, want) {
			t.Errorf("served are %v", got)
		}
		if _, err := overTLS(t, s).AppsV1().Deployments("default").List(ctx, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("second", func(t *testing.T) {
		s := start(t, dir)
		until(t, fmt.Sprintf("APIServices are %v", want), func() bool {
			batch, err := registrations(t, s).Get(t.Context(), "v1.batch", metav1.GetOptions{})
			return err == nil && batch.Spec.GroupPriorityMinimum == 17400 && slices.Equal(localNames(t, s), want)
		})
	})
}

// A group of the kernel is its own; custom resources have APIServices as long as they
// are served.
func TestAPIServicesOfTheKernel(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, c := t.Context(), registrations(t, s)
	want := servedNames(t, s)
	names := func() []string { return localNames(t, s) }
	until(t, fmt.Sprintf("APIServices are %v", want), func() bool { return slices.Equal(names(), want) })

	// A group of the kernel is not for others, whoever asks.
	for _, name := range []string{"v1.", "v1.apps", "v1.rbac.authorization.k8s.io", "v1.apiregistration.k8s.io", "v1.apiextensions.k8s.io"} {
		version, group, _ := strings.Cut(name, ".")
		port := int32(443)
		o := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: version, GroupPriorityMinimum: 20000, VersionPriority: 100,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "thief", Port: &port}}}
		if have, err := c.Get(ctx, name, metav1.GetOptions{}); err == nil {
			o.ResourceVersion = have.ResourceVersion
			_, err = c.Update(ctx, o, metav1.UpdateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "is served by this server itself") {
				t.Errorf("update of %s: %v", name, err)
			}
		} else if _, err = c.Create(ctx, o, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "is served by this server itself") {
			t.Errorf("create of %s: %v", name, err)
		}
	}

	// Custom resources.
	crds := crdclient.NewForConfigOrDie(s.ClientConfig(admin)).ApiextensionsV1().CustomResourceDefinitions()
	preserve := true
	if _, err := crds.Create(ctx, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "boats.sea.example"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "sea.example", Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Kind: "Boat"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}}}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "v1.sea.example is registered", func() bool { return slices.Contains(names(), "v1.sea.example") })
	if err := crds.Delete(ctx, "boats.sea.example", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "v1.sea.example is gone", func() bool { return slices.Equal(names(), want) })
}

// Another server's group is like one of the kernel's: requests, both discoveries, both
// OpenAPI documents; and it is gone with its APIService.
func TestAggregatedServer(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	e := newExtension(t, "fish.example")
	e.register(t, s, nil)
	e.await(t, s)

	disco := discovery.NewDiscoveryClientForConfigOrDie(admitted(t, s))
	fishes := schema.GroupVersionResource{Group: e.group, Version: "v1", Resource: "fishes"}
	trout, err := dynamic.NewForConfigOrDie(admitted(t, s)).Resource(fishes).Get(ctx, "trout", metav1.GetOptions{})
	if err != nil || trout.GetKind() != "Fish" {
		t.Fatalf("fish: %v, %v", trout, err)
	}
	got := e.last(e.path() + "/fishes/trout")
	if names := got.Header["X-Remote-User"]; !slices.Equal(names, []string{"kubernetes-admin"}) {
		t.Errorf("user %v", names)
	}
	if groups := got.Header["X-Remote-Group"]; !slices.Contains(groups, user.AllAuthenticated) {
		t.Errorf("groups %v", groups)
	}

	// The proxy proves that it is one, by the authority in the ConfigMap.
	var trusted *corev1.ConfigMap
	pool := x509.NewCertPool()
	until(t, "an authority is in the ConfigMap", func() bool { // it is written after the start
		trusted, err = overTLS(t, s).CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		return err == nil && pool.AppendCertsFromPEM([]byte(trusted.Data["requestheader-client-ca-file"]))
	})
	leaf := got.TLS.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("front proxy: %v", err)
	}
	if !strings.Contains(trusted.Data["requestheader-allowed-names"], `"`+leaf.Subject.CommonName+`"`) {
		t.Errorf("allowed names %s, the proxy is %s", trusted.Data["requestheader-allowed-names"], leaf.Subject.CommonName)
	}
	// It is no client of this server, whatever it says of itself.
	cfg := rest.AnonymousClientConfig(admitted(t, s))
	cfg.CertData, cfg.KeyData = frontProxyFiles(t, s)
	cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			req.Header.Set("X-Remote-User", "system:admin")
			req.Header.Set("X-Remote-Group", user.SystemPrivilegedGroup)
			return rt.RoundTrip(req)
		})
	}
	if _, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
		t.Errorf("secrets for the front proxy: %v", err)
	}

	for name, ask := range map[string]discovery.DiscoveryInterface{"aggregated": disco, "old": disco.WithLegacy()} {
		until(t, name+" discovery has the fishes", func() bool {
			// The group is stale, which is an error, until its discovery was read.
			_, lists, err := ask.ServerGroupsAndResources()
			return err == nil && slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
				return l.GroupVersion == "fish.example/v1" && len(l.APIResources) == 1 && l.APIResources[0].Kind == "Fish"
			})
		})
	}
	group, err := disco.RESTClient().Get().AbsPath("/apis/fish.example").DoRaw(ctx)
	if err != nil || !strings.Contains(string(group), `"fish.example/v1"`) {
		t.Errorf("group: %s, %v", group, err)
	}

	v3 := func() string {
		data, err := disco.RESTClient().Get().AbsPath("/openapi/v3").DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	until(t, "OpenAPI v3 names the group", func() bool {
		return strings.Contains(v3(), `"apis/fish.example/v1":{"serverRelativeURL":"/openapi/v3/apis/fish.example/v1?hash=ABC"}`)
	})
	if strings.Contains(v3(), "elsewhere.example") {
		t.Error("the extension describes api/v1")
	}
	document, err := disco.RESTClient().Get().AbsPath("/openapi/v3/apis/fish.example/v1").DoRaw(ctx)
	if err != nil || !strings.Contains(string(document), `"title":"fish.example"`) {
		t.Errorf("openapi v3: %.200s, %v", document, err)
	}
	if core, err := disco.RESTClient().Get().AbsPath("/openapi/v3/api/v1").DoRaw(ctx); err != nil || !strings.Contains(string(core), "io.k8s.api.core.v1.Pod") {
		t.Errorf("openapi v3 of the kernel: %.200s, %v", core, err)
	}
	v2 := func() string {
		data, err := disco.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	until(t, "OpenAPI v2 has the fishes", func() bool { return strings.Contains(v2(), "of fish.example") })
	whole := v2()
	if strings.Contains(whole, "taken over") || !strings.Contains(whole, `"/api/v1/namespaces/{namespace}/pods"`) || !strings.Contains(whole, "BearerToken") || !strings.Contains(whole, `"title":"Kubernetes"`) {
		t.Errorf("openapi v2: %.300s", whole)
	}

	if err := registrations(t, s).Delete(ctx, "v1.fish.example", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the group is gone everywhere", func() bool {
		_, lists, err := disco.ServerGroupsAndResources()
		if err != nil || slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "fish.example/v1" }) {
			return false
		}
		_, err = disco.RESTClient().Get().AbsPath(e.path()).DoRaw(ctx)
		return apierrors.IsNotFound(err) && !strings.Contains(v3(), "fish.example") && !strings.Contains(v2(), "fish.example")
	})
}

// Other servers are told of all authorities of clients, as they are now, and never of
// those of front proxies that operators let in here.
func TestAggregatedServersAreToldOfAuthorities(t *testing.T) {
	dir := t.TempDir()
	first, second, proxies := selfSigned(t, "first"), selfSigned(t, "second"), selfSigned(t, "proxies")
	clients, front := filepath.Join(dir, "clients.crt"), filepath.Join(dir, "proxies.crt")
	write := func(file, text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	write(clients, first)
	write(front, proxies)
	s, _ := startWith(t, dir, func(c *api.Config) {
		c.Authentication.ClientCAs = []string{clients}
		c.Authentication.FrontProxy = authentication.FrontProxy{CAFile: front, UsernameHeaders: []string{"X-Remote-User"}}
	})
	told := func() string {
		m, err := overTLS(t, s).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		} else if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m.Data["client-ca-file"], proxies) || strings.Contains(m.Data["requestheader-client-ca-file"], proxies) {
			t.Fatal("other servers are told of the front proxies' authority")
		}
		return m.Data["client-ca-file"]
	}
	until(t, "the authorities are told", func() bool {
		return strings.Contains(told(), string(s.PKI().CAPEM())) && strings.Contains(told(), first)
	})
	write(clients, first+second)
	until(t, "another authority is told", func() bool { return strings.Contains(told(), second) })
}

func selfSigned(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func frontProxyFiles(t *testing.T, s *api.Server) (cert, key []byte) {
	t.Helper()
	front, err := s.PKI().FrontProxy()
	if err != nil {
		t.Fatal(err)
	}
	cert, key = front.Client().CurrentCertKeyContent()
	if b, _ := pem.Decode(cert); b == nil {
		t.Fatal("no certificate")
	}
	return cert, key
}
