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
	"fmt"
	"io"
	"log"
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

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/audit"
)

// hook is a webhook over TLS. It remembers what it is asked.
type hook struct {
	url, name string
	port      int32
	ca        []byte

	mu     sync.Mutex
	asked  []*admissionv1.AdmissionRequest
	answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// newHook answers each review by answer; nil: everything is allowed.
func newHook(t *testing.T, name string, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *hook {
	t.Helper()
	h := &hook{name: name, answer: answer}
	h.listen(t, func(w http.ResponseWriter, req *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		h.asked = append(h.asked, review.Request)
		answer := h.answer
		h.mu.Unlock()
		review.Response = &admissionv1.AdmissionResponse{Allowed: true}
		if answer != nil {
			review.Response = answer(review.Request)
		}
		review.Response.UID = review.Request.UID
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	})
	return h
}

// listen serves with a certificate for this machine and for service hook of default.
func (h *hook) listen(t *testing.T, handler http.HandlerFunc) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hook"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"hook.default.svc", "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	h.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	h.url = server.URL + "/review"
	h.port = int32(server.Listener.Addr().(*net.TCPAddr).Port)
}

// seen lists what was asked, like "CREATE pods/binding"; those of group kernel's are left out.
func (h *hook) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, r := range h.asked {
		what := string(r.Operation) + " " + r.Resource.Resource
		if r.SubResource != "" {
			what += "/" + r.SubResource
		}
		out = append(out, what)
	}
	return out
}

func (h *hook) saw(what string) bool { return slices.Contains(h.seen(), what) }

func (h *hook) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = nil
}

func (h *hook) client() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: &h.url, CABundle: h.ca}
}

func ruleOf(resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources},
	}
}

func validatingHook(h *hook, change func(*admissionregistrationv1.ValidatingWebhook), resources ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	none := admissionregistrationv1.SideEffectClassNone
	w := admissionregistrationv1.ValidatingWebhook{
		Name: h.name + ".example.com", ClientConfig: h.client(), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{ruleOf(resources...)},
	}
	if change != nil {
		change(&w)
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{w}}
}

func mutatingHook(h *hook, change func(*admissionregistrationv1.MutatingWebhook), resources ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	none := admissionregistrationv1.SideEffectClassNone
	w := admissionregistrationv1.MutatingWebhook{
		Name: h.name + ".example.com", ClientConfig: h.client(), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{ruleOf(resources...)},
	}
	if change != nil {
		change(&w)
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Webhooks: []admissionregistrationv1.MutatingWebhook{w}}
}

func configure(t *testing.T, c kubernetes.Interface, configurations ...any) {
	t.Helper()
	for _, o := range configurations {
		var err error
		switch o := o.(type) {
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			_, err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), o, metav1.CreateOptions{})
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			_, err = c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), o, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inForce waits until webhooks that are about configmaps, or everything, are asked.
func inForce(t *testing.T, c kubernetes.Interface, hooks ...*hook) {
	t.Helper()
	waitFor(t, func() bool {
		_, _ = c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "marker-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return !slices.ContainsFunc(hooks, func(h *hook) bool { return !h.saw("CREATE configmaps") })
	})
}

func binding(name string) *corev1.Binding {
	return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
}

func event(name string) *eventsv1.Event {
	return &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, EventTime: metav1.NowMicro(), Reason: "R", Action: "A", Type: "Normal",
		ReportingController: "c", ReportingInstance: "i", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}}
}

// No way by which an object is written goes round a webhook.
func TestNoWayRoundWebhooks(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	cfg := must(kubeconfig(s))
	cfg.QPS, cfg.ContentType = -1, runtime.ContentTypeProtobuf
	protobuf := kubernetes.NewForConfigOrDie(cfg)
	direct := kubernetes.NewForConfigOrDie(s.ClientConfig(admin))
	crds := crdclient.NewForConfigOrDie(must(kubeconfig(s))).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, widgets(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	widget := dynamic.NewForConfigOrDie(must(kubeconfig(s))).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
	waitFor(t, func() bool {
		_, err := widget.List(ctx, metav1.ListOptions{})
		return err == nil
	})
	pods := c.CoreV1().Pods("default")
	made := map[string]*corev1.Pod{}
	for _, name := range []string{"bound", "bound2", "bound3", "bound4", "status", "deleted", "evicted"} {
		made[name] = must(pods.Create(ctx, pod(name), metav1.CreateOptions{}))
	}
	replicas := int32(0)
	labels := map[string]string{"a": "b"}
	must(c.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("x").Spec},
	}}, metav1.CreateOptions{}))
	must(c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "going"}}, metav1.CreateOptions{}))

	v, m := newHook(t, "v", nil), newHook(t, "m", nil)
	configure(t, c, validatingHook(v, nil, "*/*"), mutatingHook(m, nil, "*/*"))
	inForce(t, c, v, m)

	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}
	scheduler := &user.DefaultInfo{Name: user.KubeScheduler}
	ways := []struct {
		name string
		do   func() error
		want []string
	}{
		{"POST of a pod", func() error {
			_, err := pods.Create(ctx, pod("json"), metav1.CreateOptions{})
			return err
		}, []string{"CREATE pods"}},
		{"POST of a pod in protobuf", func() error {
			_, err := protobuf.CoreV1().Pods("default").Create(ctx, pod("protobuf"), metav1.CreateOptions{})
			return err
		}, []string{"CREATE pods"}},
		{"POST of an equal pod", func() error {
			_, err := protobuf.CoreV1().Pods("default").Create(ctx, pod("protobuf2"), metav1.CreateOptions{})
			return err
		}, []string{"CREATE pods"}},
		{"POST of a pod in this process", func() error {
			_, err := direct.CoreV1().Pods("default").Create(ctx, pod("inprocess"), metav1.CreateOptions{})
			return err
		}, []string{"CREATE pods"}},
		{"Bind", func() error { return s.Bind(ctx, binding("bound")) }, []string{"CREATE pods/binding"}},
		{"BindAll", func() error {
			return s.BindAll(ctx, []*corev1.Binding{binding("bound2")}, []*corev1.Pod{made["bound2"]})[0]
		}, []string{"CREATE pods/binding"}},
		{"POST of a binding", func() error { return pods.Bind(ctx, binding("bound3"), metav1.CreateOptions{}) }, []string{"CREATE pods/binding"}},
		{"POST to bindings", func() error {
			return c.CoreV1().RESTClient().Post().Namespace("default").Resource("bindings").Body(binding("bound4")).Do(ctx).Error()
		}, []string{"CREATE bindings"}},
		{"SetPodStatus", func() error { return s.SetPodStatus(ctx, "default", "status", made["status"].UID, &condition, nil) }, []string{"UPDATE pods/status"}},
		{"CreateEvents", func() error {
			failures := s.CreateEvents(ctx, scheduler, []*eventsv1.Event{event("one"), event("two"), event("three")})
			return firstOf(failures)
		}, []string{"CREATE events", "CREATE events", "CREATE events"}},
		{"DeletePod", func() error { return s.DeletePod(ctx, scheduler, "default", "deleted", metav1.DeleteOptions{}) }, []string{"DELETE pods"}},
		{"PUT of a status", func() error {
			p := must(pods.Get(ctx, "status", metav1.GetOptions{}))
			_, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
			return err
		}, []string{"UPDATE pods/status"}},
		{"PATCH", func() error {
			_, err := pods.Patch(ctx, "status", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
			return err
		}, []string{"UPDATE pods"}},
		{"apply that creates", func() error {
			_, err := c.CoreV1().ConfigMaps("default").Apply(ctx, corev1apply.ConfigMap("applied", "default").WithData(labels), metav1.ApplyOptions{FieldManager: "t"})
			return err
		}, []string{"CREATE configmaps"}},
		{"apply that changes", func() error {
			_, err := c.CoreV1().ConfigMaps("default").Apply(ctx, corev1apply.ConfigMap("applied", "default").WithData(map[string]string{"c": "d"}), metav1.ApplyOptions{FieldManager: "t"})
			return err
		}, []string{"UPDATE configmaps"}},
		{"PUT of a scale", func() error {
			_, err := c.AppsV1().Deployments("default").UpdateScale(ctx, "d", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}, metav1.UpdateOptions{})
			return err
		}, []string{"UPDATE deployments/scale"}},
		{"DELETE of a collection", func() error {
			return c.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, []string{"DELETE configmaps"}},
		{"eviction", func() error {
			return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: "default"}})
		}, []string{"CREATE pods/eviction"}},
		{"DELETE of a namespace", func() error { return c.CoreV1().Namespaces().Delete(ctx, "going", metav1.DeleteOptions{}) }, []string{"DELETE namespaces"}},
		{"finalize", func() error {
			ns := must(c.CoreV1().Namespaces().Get(ctx, "going", metav1.GetOptions{}))
			ns.Spec.Finalizers = nil
			_, err := c.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
			return err
		}, []string{"UPDATE namespaces/finalize"}},
		{"token", func() error {
			_, err := c.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		}, []string{"CREATE serviceaccounts/token"}},
		{"custom resource", func() error {
			_, err := widget.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}}}, metav1.CreateOptions{})
			return err
		}, []string{"CREATE widgets"}},
		{"connect", func() error {
			// Nobody answers on the other side. It was asked for before that.
			_ = c.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("bound").SubResource("proxy").Do(ctx).Error()
			return nil
		}, []string{"CONNECT pods/proxy"}},
	}
	for _, way := range ways {
		v.forget()
		m.forget()
		if err := way.do(); err != nil {
			t.Errorf("%s: %v", way.name, err)
			continue
		}
		for _, h := range []*hook{v, m} {
			var seen []string
			for _, what := range h.seen() {
				if slices.Contains(way.want, what) {
					seen = append(seen, what)
				}
			}
			if len(seen) < len(way.want) {
				t.Errorf("%s: webhook %s was asked %v, want %v", way.name, h.name, h.seen(), way.want)
			}
		}
	}

	// And what it refuses is not written.
	deny := func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not today"}}
	}
	v.mu.Lock()
	v.answer = deny
	v.mu.Unlock()
	for name, err := range map[string]error{
		"Bind":         s.Bind(ctx, binding("json")),
		"BindAll":      s.BindAll(ctx, []*corev1.Binding{binding("json")}, nil)[0],
		"SetPodStatus": s.SetPodStatus(ctx, "default", "json", must(pods.Get(ctx, "json", metav1.GetOptions{})).UID, &condition, nil),
		"CreateEvents": firstOf(s.CreateEvents(ctx, scheduler, []*eventsv1.Event{event("denied")})),
		"DeletePod":    s.DeletePod(ctx, scheduler, "default", "json", metav1.DeleteOptions{}),
		"POST": func() error {
			_, err := protobuf.CoreV1().Pods("default").Create(ctx, pod("denied"), metav1.CreateOptions{})
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), `admission webhook "v.example.com" denied the request: not today`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := pods.Get(ctx, "json", metav1.GetOptions{})
	if err != nil || p.Spec.NodeName != "" || p.DeletionTimestamp != nil || len(p.Status.Conditions) != 0 {
		t.Errorf("a pod that nothing may be done to: %+v, %v", p, err)
	}
	if _, err := c.EventsV1().Events("default").Get(ctx, "denied", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("event: %v", err)
	}
	// The configurations themselves can always be taken away.
	for _, err := range []error{
		c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "v", metav1.DeleteOptions{}),
		c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, "m", metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	waitFor(t, func() bool { return s.Bind(ctx, binding("json")) == nil })
}

func firstOf(failures []error) error {
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func patching(operations string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	kind := admissionv1.PatchTypeJSONPatch
	return func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		out := &admissionv1.AdmissionResponse{Allowed: true}
		if r.Resource.Resource != "configmaps" {
			out.Patch, out.PatchType = []byte(operations), &kind
		}
		return out
	}
}

// What mutating webhooks make of an object is defaulted, validated, seen by the next
// and by the validating ones; who asks for it is asked again.
func TestWebhookMutates(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	ifNeeded := admissionregistrationv1.IfNeededReinvocationPolicy
	first := newHook(t, "a", patching(`[{"op":"add","path":"/metadata/labels/first","value":"yes"}]`))
	second := newHook(t, "b", patching(`[{"op":"add","path":"/spec/containers/-","value":{"name":"side","image":"side:1","args":[]}}]`))
	last := newHook(t, "z", nil)
	configure(t, c, mutatingHook(first, func(w *admissionregistrationv1.MutatingWebhook) { w.ReinvocationPolicy = &ifNeeded }, "pods", "configmaps"),
		mutatingHook(second, func(w *admissionregistrationv1.MutatingWebhook) {
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "once", Expression: "request.resource.resource != 'pods' || object.spec.containers.size() == 1"}}
		}, "pods", "configmaps"),
		validatingHook(last, nil, "pods", "configmaps"))
	inForce(t, c, first, second, last)
	for _, h := range []*hook{first, second, last} {
		h.forget()
	}
	cfg := must(kubeconfig(s))
	cfg.ContentType = runtime.ContentTypeProtobuf
	got, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("default").Create(ctx, pod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Spec.Containers) != 2 || got.Spec.Containers[1].TerminationMessagePath == "" || got.Labels["first"] != "yes" || got.Labels["app"] != "bench" {
		t.Errorf("pod %+v", got)
	}
	// The token is mounted into the container that came later too, by the second round.
	if len(got.Spec.Containers[1].VolumeMounts) != 1 {
		t.Errorf("mounts %+v", got.Spec.Containers[1].VolumeMounts)
	}
	if n := len(first.seen()); n != 2 {
		t.Errorf("first webhook was asked %d times, want 2", n)
	}
	if n := len(second.seen()); n != 1 {
		t.Errorf("second webhook was asked %d times, want 1", n)
	}
	if !strings.Contains(string(last.asked[0].Object.Raw), `"name":"side"`) || last.asked[0].UserInfo.Username != "kubernetes-admin" || last.asked[0].Options.Raw == nil {
		t.Errorf("the validating webhook was asked %s", last.asked[0].Object.Raw)
	}
	// What it makes has to be valid.
	second.mu.Lock()
	second.answer = patching(`[{"op":"replace","path":"/spec/containers/0/name","value":"Not Valid"}]`)
	second.mu.Unlock()
	if _, err := c.CoreV1().Pods("default").Create(ctx, pod("q"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"Not Valid"`) {
		t.Errorf("invalid after a webhook: %v", err)
	}
	// The scheduler's bindings can be changed as well.
	second.mu.Lock()
	second.answer = nil
	second.mu.Unlock()
	binder := newHook(t, "c", patching(`[{"op":"add","path":"/metadata/labels","value":{"bound":"yes"}}]`))
	configure(t, c, mutatingHook(binder, nil, "pods/binding", "configmaps"))
	inForce(t, c, binder)
	if err := s.Bind(ctx, binding("p")); err != nil {
		t.Fatal(err)
	}
	if got := must(c.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})); got.Labels["bound"] != "yes" || got.Spec.NodeName != "n1" {
		t.Errorf("bound pod: %+v", got.ObjectMeta)
	}
}

// A webhook about one group of events is asked about the other, in its own words.
func TestWebhookEquivalent(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	h := newHook(t, "h", nil)
	configure(t, c, validatingHook(h, func(w *admissionregistrationv1.ValidatingWebhook) {
		w.Rules = []admissionregistrationv1.RuleWithOperations{ruleOf("configmaps"), {
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"events.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"events"}},
		}}
	}, "configmaps"))
	inForce(t, c, h)
	h.forget()
	must(c.CoreV1().Events("default").Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Message: "said",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}}, metav1.CreateOptions{}))
	if len(h.asked) != 1 {
		t.Fatalf("asked %v", h.seen())
	}
	r := h.asked[0]
	if r.Resource.Group != "events.k8s.io" || r.Kind.Group != "events.k8s.io" || r.RequestResource.Group != "" || !strings.Contains(string(r.Object.Raw), `"note":"said"`) {
		t.Errorf("asked about %v %v (request %v): %s", r.Resource, r.Kind, r.RequestResource, r.Object.Raw)
	}
}

// faultyHook answers as no webhook should.
func faultyHook(t *testing.T, name string, handler http.HandlerFunc) *hook {
	h := &hook{name: name}
	h.listen(t, handler)
	return h
}

// Webhooks that answer badly, or not, refuse what they are about, in words that say
// why, or are ignored where that was asked for.
func TestBadWebhooks(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	one := int32(1)
	other := newHook(t, "other", nil)
	cases := []struct {
		name   string
		hook   *hook
		change func(*admissionregistrationv1.ValidatingWebhook)
		want   string
	}{
		{"hangs", faultyHook(t, "hangs", func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // who goes away is noticed after that
			<-req.Context().Done()
		}), func(w *admissionregistrationv1.ValidatingWebhook) { w.TimeoutSeconds = &one }, "context deadline exceeded"},
		{"rubbish", faultyHook(t, "rubbish", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("}{")) }), nil, "did not find expected node content"},
		{"empty", faultyHook(t, "empty", func(http.ResponseWriter, *http.Request) {}), nil, "0-length response"},
		{"fails", faultyHook(t, "fails", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) }), nil, "boom"},
		{"redirects", faultyHook(t, "redirects", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.url, http.StatusTemporaryRedirect)
		}), nil, "redirects are not followed"},
		{"large", faultyHook(t, "large", func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}), nil, "answered with more than"},
		{"closes", faultyHook(t, "closes", func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // to close on what is unread is a reset, no end
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		}), nil, "EOF"},
		{"uid", faultyHook(t, "uid", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"another","allowed":true}}`))
		}), nil, `expected response.uid=`},
		{"stranger", other, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ClientConfig.CABundle = newHook(t, "unused", nil).ca
		}, "certificate signed by unknown authority"},
		{"itself", other, func(w *admissionregistrationv1.ValidatingWebhook) {
			path := "/api/v1/namespaces"
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "kubernetes", Path: &path}}
		}, "is this API server, which serves no webhook"},
		{"own-address", other, func(w *admissionregistrationv1.ValidatingWebhook) {
			url := s.URL() + "/api/v1/namespaces"
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: s.PKI().CAPEM()}
		}, `User "system:anonymous" cannot create resource "namespaces"`},
		{"no-service", other, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "nowhere"}}
		}, `"nowhere" not found`},
	}
	ignore := admissionregistrationv1.Ignore
	hooks := c.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for _, test := range cases {
		labels := map[string]string{"hook": test.name}
		conf := validatingHook(test.hook, test.change, "configmaps")
		conf.Name = test.name
		conf.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: labels}
		ignoring := conf.DeepCopy()
		ignoring.Name += "-ignored"
		ignoring.Webhooks[0].FailurePolicy = &ignore
		ignoring.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"hook": ignoring.Name}}
		configure(t, c, conf, ignoring)
	}
	marker := newHook(t, "marker", nil)
	configure(t, c, validatingHook(marker, func(w *admissionregistrationv1.ValidatingWebhook) {}, "configmaps"))
	inForce(t, c, marker)
	var group sync.WaitGroup
	for _, test := range cases {
		group.Go(func() {
			create := func(hook string) error {
				_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-" + hook, Labels: map[string]string{"hook": hook}}}, metav1.CreateOptions{})
				return err
			}
			err := create(test.name)
			if err == nil || !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "`+test.hook.name+`.example.com"`) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v; want %q", test.name, err, test.want)
			}
			if err := create(test.name + "-ignored"); err != nil {
				t.Errorf("%s, ignored: %v", test.name, err)
			}
		})
	}
	group.Wait()
	if other.saw("CREATE configmaps") {
		t.Error("a redirect was followed")
	}
	// What is wrong with what it names, a user hears when they write it.
	conf := validatingHook(other, func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = nil; w.SideEffects = nil }, "configmaps")
	if _, err := hooks.Create(ctx, conf, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun") {
		t.Errorf("no side effects: %v", err)
	}
}

// A webhook is found as a service, selects objects and namespaces, warns, annotates
// and is measured; a dry run does not ask who has side effects.
func TestWebhookWishes(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	warned, cfg := &warnings{}, must(kubeconfig(s))
	cfg.WarningHandler = warned
	c := kubernetes.NewForConfigOrDie(cfg)
	h := newHook(t, "h", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: r.Name != "denied", Warnings: []string{"mind the gap"}, Result: &metav1.Status{Code: 418, Message: "no", Reason: "Teapot"}}
	})
	must(c.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, metav1.CreateOptions{}))
	path, exact := "/review", admissionregistrationv1.Exact
	conf := validatingHook(h, func(w *admissionregistrationv1.ValidatingWebhook) {
		w.ClientConfig = admissionregistrationv1.WebhookClientConfig{CABundle: h.ca, Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook", Port: &h.port, Path: &path}}
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "quiet", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		w.MatchPolicy = &exact
		w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-nodes", Expression: "!('system:nodes' in request.userInfo.groups)"}, {Name: "no-token", Expression: "request.name != 'unmatched'"}}
	}, "configmaps")
	configure(t, c, conf)
	inForce(t, c, h)
	for _, ns := range []string{"loud", "quiet"} {
		labels := map[string]string{}
		if ns == "quiet" {
			labels["quiet"] = "yes"
		}
		must(c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: labels}}, metav1.CreateOptions{}))
	}
	h.forget()
	create := func(ns, name string) error {
		_, err := c.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	var status *apierrors.StatusError
	if err := create("loud", "denied"); !apierrorsAs(err, &status) || status.ErrStatus.Code != 418 || status.ErrStatus.Message != `admission webhook "h.example.com" denied the request: no` {
		t.Errorf("denied: %v", err)
	}
	for _, where := range [][2]string{{"quiet", "denied"}, {"loud", "unmatched"}, {"loud", "allowed"}} {
		if err := create(where[0], where[1]); err != nil {
			t.Errorf("%v: %v", where, err)
		}
	}
	if n := len(h.seen()); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
	if got := warned.all(); !slices.Contains(got, "mind the gap") {
		t.Errorf("warnings %q", got)
	}
	metrics, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil || !strings.Contains(string(metrics), `apiserver_admission_webhook_admission_duration_seconds_count{name="h.example.com",operation="CREATE",rejected="true",type="validating"}`) {
		t.Errorf("metrics: %v", err)
	}
	// CONNECT, UPDATE and so on come with what was before.
	h.forget()
	cm := must(c.CoreV1().ConfigMaps("loud").Get(ctx, "allowed", metav1.GetOptions{}))
	cm.Data = map[string]string{"a": "b"}
	must(c.CoreV1().ConfigMaps("loud").Update(ctx, cm, metav1.UpdateOptions{}))
	if err := c.CoreV1().ConfigMaps("loud").Delete(ctx, "allowed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(h.asked) != 2 || h.asked[0].OldObject.Raw == nil || h.asked[1].OldObject.Raw == nil || h.asked[1].Object.Raw != nil || !strings.Contains(string(h.asked[0].Object.Raw), `"kind":"ConfigMap","apiVersion":"v1"`) {
		t.Errorf("asked %+v", h.asked)
	}
}

// Webhooks change custom resources, whose schema prunes what they add, refuse
// definitions of them, and refuse that somebody attaches to a pod.
func TestWebhookCustomResources(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	crds := crdclient.NewForConfigOrDie(must(kubeconfig(s))).ApiextensionsV1().CustomResourceDefinitions()
	must(crds.Create(ctx, widgets(), metav1.CreateOptions{}))
	client := dynamic.NewForConfigOrDie(must(kubeconfig(s))).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
	waitFor(t, func() bool {
		_, err := client.List(ctx, metav1.ListOptions{})
		return err == nil
	})
	must(c.CoreV1().Pods("default").Create(ctx, pod("p"), metav1.CreateOptions{}))
	h := newHook(t, "h", patching(`[{"op":"add","path":"/spec","value":{"size":7,"unknown":"x"}}]`))
	deny := newHook(t, "deny", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: r.Resource.Resource == "configmaps", Result: &metav1.Status{Message: "not here"}}
	})
	configure(t, c, mutatingHook(h, nil, "widgets", "configmaps"), validatingHook(deny, nil, "customresourcedefinitions", "pods/attach", "configmaps"))
	inForce(t, c, h, deny)
	made, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if spec := fmt.Sprint(made.Object["spec"]); spec != "map[size:7]" || made.GetKind() != "Widget" || made.GetAPIVersion() != "example.com/v1" {
		t.Errorf("made %v", made.Object)
	}
	h.mu.Lock()
	h.answer = patching(`[{"op":"add","path":"/spec","value":{"size":0}}]`)
	h.mu.Unlock()
	if _, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "x"}}}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("what the schema does not allow: %v", err)
	}
	other := widgets()
	other.Name, other.Spec.Names.Plural = "gadgets.example.com", "gadgets"
	for name, err := range map[string]error{
		"definition": func() error {
			_, err := crds.Create(ctx, other, metav1.CreateOptions{})
			return err
		}(),
		"attach": c.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("p").SubResource("attach").Do(ctx).Error(),
	} {
		if err == nil || !strings.Contains(err.Error(), `admission webhook "deny.example.com" denied the request: not here`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What webhooks note, and what they change, stands in the audit log, of creates of pods
// too; and who configures them, without any policy of the log's own.
func TestWebhookAudit(t *testing.T) {
	for _, test := range []struct {
		name, policy string
		want         []string
	}{
		{"of pods", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, resources: [{group: \"\", resources: [pods]}]}]\n", []string{
			`"h.example.com/key":"value"`, `"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"h\",\"webhook\":\"h.example.com\",\"mutated\":true}"`,
			`"labels.example.com/name":"p"`,
		}},
		{"by default", "", []string{`"resource":"mutatingwebhookconfigurations","name":"h"`, `"resource":"validatingadmissionpolicies","name":"labels.example.com"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			options := audit.Options{LogPath: filepath.Join(dir, "audit.log")}
			if test.policy != "" {
				options.PolicyFile = filepath.Join(dir, "policy.yaml")
				if err := os.WriteFile(options.PolicyFile, []byte(test.policy), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.Audit = options })
			c := overTLS(t, s)
			patch := patching(`[{"op":"add","path":"/metadata/labels/first","value":"yes"}]`)
			h := newHook(t, "h", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				out := &admissionv1.AdmissionResponse{Allowed: true}
				if r.Operation == admissionv1.Create { // a DELETE has no object that a patch could change
					out = patch(r)
				}
				out.AuditAnnotations = map[string]string{"key": "value"}
				return out
			})
			bind(t, c, validatingPolicy("labels.example.com", admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matching("CREATE", "pods"),
				AuditAnnotations: []admissionregistrationv1.AuditAnnotation{{Key: "name", ValueExpression: "string(object.metadata.name)"}}}),
				validatingBinding("labels.example.com", nil, admissionregistrationv1.Deny))
			configure(t, c, mutatingHook(h, nil, "pods", "configmaps"))
			inForce(t, c, h)
			waitFor(t, func() bool {
				err := c.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
				if err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
				must(c.CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}))
				text, err := os.ReadFile(options.LogPath)
				return err == nil && !slices.ContainsFunc(test.want, func(want string) bool { return !strings.Contains(string(text), want) })
			})
		})
	}
}

// A thousand configurations that are about other objects leave this one alone.
func TestManyWebhooks(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := kubernetes.NewForConfigOrDie(s.ClientConfig(admin))
	const many = 1000
	dead := &hook{url: "https://127.0.0.1:1/review"}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range many {
		group.Go(func() error {
			h := &hook{name: fmt.Sprintf("w%d", i), url: dead.url}
			_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, validatingHook(h, func(w *admissionregistrationv1.ValidatingWebhook) {
				w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": h.name}}
				w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: fmt.Sprintf("object.metadata.name != 'n%d'", i)}}
			}, "configmaps", "pods"), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	create := func(labels map[string]string) error {
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c", Labels: labels}}, metav1.CreateOptions{})
		return err
	}
	refusing(t, `failed calling webhook "w999.example.com"`, func() error { return create(map[string]string{"of": "w999"}) })
	if err := create(nil); err != nil {
		t.Error(err)
	}
	if _, err := c.CoreV1().Pods("default").Create(ctx, pod("p"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return create(map[string]string{"of": "w999"}) == nil })
}

// warnings are the Warning headers that a client was sent.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func apierrorsAs(err error, status **apierrors.StatusError) bool {
	s, ok := err.(*apierrors.StatusError)
	*status = s
	return ok
}

// A server starts while a webhook that cannot be reached refuses everything, so that
// somebody can take it away.
func TestStartsWithDeadWebhook(t *testing.T) {
	dir := t.TempDir()
	h := &hook{name: "dead", url: "https://127.0.0.1:1/review"}
	t.Run("before", func(t *testing.T) {
		s := start(t, dir)
		// All that a start writes: the port, and with it the service, is another.
		everything := []string{"configmaps", "namespaces", "services", "endpoints", "endpointslices", "clusterroles", "clusterrolebindings", "roles", "rolebindings",
			"flowschemas", "flowschemas/status", "prioritylevelconfigurations", "priorityclasses"}
		configure(t, overTLS(t, s), validatingHook(h, nil, everything...), mutatingHook(h, nil, everything...))
		waitFor(t, func() bool {
			_, err := overTLS(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "failed calling webhook")
		})
	})
	t.Run("after", func(t *testing.T) {
		s := start(t, dir)
		c := overTLS(t, s)
		if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("a create after the start: %v", err)
		}
		// Nobody is the server for its name: the start's pass is the way in.
		impersonated := must(clientOf(s, &rest.ImpersonationConfig{UserName: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}))
		if _, err := impersonated.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("a create in the server's name: %v", err)
		}
		if err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "dead", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), "dead", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		waitFor(t, func() bool {
			_, err := c.CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	})
}

func clientOf(s *api.Server, as *rest.ImpersonationConfig) (*kubernetes.Clientset, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", s.SuperAdminKubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.Impersonate = *as
	return kubernetes.NewForConfig(cfg)
}
