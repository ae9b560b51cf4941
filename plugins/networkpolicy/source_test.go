package networkpolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", ResourceVersion: "1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"large": "text"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}, {ContainerPort: 81}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
	}
	if change != nil {
		change(p)
	}
	slim, err := slimPod(p)
	if err != nil {
		panic(err)
	}
	return slim.(*corev1.Pod)
}

// TestPodOf: which pods policies see, at which addresses and ports.
func TestPodOf(t *testing.T) {
	got := podOf(pod(nil), "n")
	if got == nil || !got.Local || got.Labels["app"] != "web" || !slices.Equal(got.Addresses, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}) ||
		!slices.Equal(got.Ports, []program.Port{{Name: "http", Protocol: program.TCP, Number: 80}}) {
		t.Errorf("%+v", got)
	}
	if got := podOf(pod(nil), "other"); got == nil || got.Local {
		t.Errorf("of another node: %+v", got)
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := podOf(pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{
			{RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 9, Protocol: corev1.ProtocolSCTP}}},
			{Ports: []corev1.ContainerPort{{Name: "gone", ContainerPort: 10}}}}
	}), "n")
	if len(sidecar.Ports) != 2 || sidecar.Ports[1] != (program.Port{Name: "side", Protocol: program.SCTP, Number: 9}) {
		t.Errorf("ports %+v", sidecar.Ports)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"the node's network": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"succeeded":          func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":             func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"no address":         func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil },
		"no such address":    func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "everywhere"}} },
	} {
		if got := podOf(pod(change), "n"); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// One that ends still has its address.
	if got := podOf(pod(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }), "n"); got == nil {
		t.Error("a pod that ends is not seen")
	}
	if got := podOf(pod(func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "::ffff:10.0.0.9"}} }), "n"); got.Addresses[0] != netip.MustParseAddr("10.0.0.9") {
		t.Errorf("addresses %v", got.Addresses)
	}
}

// TestDiffer: what no policy looks at starts no round.
func TestDiffer(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"version":    {func(p *corev1.Pod) { p.ResourceVersion = "2" }, false},
		"annotation": {func(p *corev1.Pod) { p.Annotations = nil }, false},
		"condition":  {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		"phase":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		"end":        {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"label":      {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} }, true},
		"address":    {func(p *corev1.Pod) { p.Status.PodIPs = nil }, true},
		"port":       {func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 8 }, true},
	} {
		if got := differ(pod(nil), pod(tc.change)); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	ns := func(version string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Labels: labels}}
	}
	if differ(ns("1", nil), ns("2", nil)) || !differ(ns("1", nil), ns("2", map[string]string{"a": "b"})) {
		t.Error("namespaces are compared by more than labels")
	}
	policy := func(version string, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: types}}
	}
	if differ(policy("1"), policy("2")) || !differ(policy("1"), policy("2", networkingv1.PolicyTypeEgress)) {
		t.Error("policies are compared by more than their spec")
	}
}

// api is an API with objects that a test changes, which it lists; a watch ends when its
// version is not the newest, so that the objects are listed again.
type api struct {
	mu      sync.Mutex
	version int
	objects map[string][]runtime.Object
	changed chan struct{}
	asked   map[string]int
	listed  map[string]int
	streams bool // it sends what it has as the first events of a watch, as the API server does
}

func (a *api) set(path string, objects ...runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[path] = objects
	a.version++
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	list, changed, version := a.objects[r.URL.Path], a.changed, strconv.Itoa(a.version)
	a.asked[r.URL.Path]++
	if r.URL.Query().Get("watch") == "" {
		a.listed[r.URL.Path]++
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	encode := json.NewEncoder(w)
	kinds := map[string][2]string{"/api/v1/pods": {"v1", "PodList"}, "/api/v1/namespaces": {"v1", "NamespaceList"}, "/apis/networking.k8s.io/v1/networkpolicies": {"networking.k8s.io/v1", "NetworkPolicyList"}}
	switch {
	case r.URL.Query().Get("watch") == "":
		if list == nil {
			list = []runtime.Object{}
		}
		_ = encode.Encode(map[string]any{"apiVersion": kinds[r.URL.Path][0], "kind": kinds[r.URL.Path][1], "metadata": map[string]any{"resourceVersion": version}, "items": list})
	case r.URL.Query().Get("sendInitialEvents") == "true" && a.streams:
		kind := map[string]string{"apiVersion": kinds[r.URL.Path][0], "kind": strings.TrimSuffix(kinds[r.URL.Path][1], "List")}
		for _, o := range list {
			_ = encode.Encode(map[string]any{"type": "ADDED", "object": typed(o, kind, version)})
		}
		end := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		_ = encode.Encode(map[string]any{"type": "BOOKMARK", "object": typed(end, kind, version)})
		a.hold(w, r, encode, changed)
	case r.URL.Query().Get("sendInitialEvents") == "true":
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = encode.Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: 422})
	default:
		if r.URL.Query().Get("resourceVersion") != version {
			changed = closed
		}
		a.hold(w, r, encode, changed)
	}
}

// hold leaves a watch open until its version is too old.
func (a *api) hold(w http.ResponseWriter, r *http.Request, encode *json.Encoder, changed chan struct{}) {
	w.(http.Flusher).Flush()
	select {
	case <-changed:
		_ = encode.Encode(map[string]any{"type": "ERROR", "object": metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410}})
	case <-r.Context().Done():
	}
}

// typed is an object as an event has it: with its kind and a version.
func typed(o runtime.Object, kind map[string]string, version string) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err)
	}
	out["apiVersion"], out["kind"] = kind["apiVersion"], kind["kind"]
	out["metadata"].(map[string]any)["resourceVersion"] = version
	return out
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// asking is a source that asks an API, keeps so much of the policies of a namespace, and a wait
// for what it is to know.
func asking(t *testing.T, a *api, limit int) (context.Context, *source, func(what string, ok func(c *program.Cluster) bool)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "api")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	core, networking, err := clients(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan struct{}, 1)
	s := newSource(ctx, "n", nil, limit, core, networking, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	t.Cleanup(func() { cancel(); s.wait() })
	await := func(what string, ok func(c *program.Cluster) bool) {
		t.Helper()
		limit := time.After(2 * time.Minute)
		for {
			if c, known := s.cluster(ctx); known && ok(c) {
				return
			}
			select {
			case <-woken:
			case <-limit:
				t.Fatalf("not known: %s", what)
			}
		}
	}
	return ctx, s, await
}

// TestSource: pods are watched while there is a policy; what the API has is what is known.
func TestSource(t *testing.T) {
	a := &api{version: 1, objects: map[string][]runtime.Object{}, changed: make(chan struct{}), asked: map[string]int{}, listed: map[string]int{}}
	_, s, await := asking(t, a, defaultBytes)
	await("that there is no policy", func(c *program.Cluster) bool { return len(c.Policies) == 0 })
	a.mu.Lock()
	if a.asked["/api/v1/pods"]+a.asked["/api/v1/namespaces"] > 0 {
		t.Error("pods are watched though there is no policy")
	}
	a.mu.Unlock()
	a.set("/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "v"}}})
	a.set("/api/v1/pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}})
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "closed"}}
	a.set("/apis/networking.k8s.io/v1/networkpolicies", policy)
	await("the policy, and the pod", func(c *program.Cluster) bool {
		return len(c.Policies) == 1 && len(c.Pods) == 1 && c.Pods[0].Local && c.Namespaces["a"]["k"] == "v"
	})
	a.set("/api/v1/pods")
	await("that the pod is gone", func(c *program.Cluster) bool { return len(c.Policies) == 1 && len(c.Pods) == 0 })
	a.set("/apis/networking.k8s.io/v1/networkpolicies")
	await("that the policy is gone", func(c *program.Cluster) bool { return len(c.Policies) == 0 })
	s.mu.Lock()
	if s.end != nil {
		t.Error("pods are watched after the last policy went")
	}
	s.mu.Unlock()
}

// TestReadAgain: a policy for which there was no room is read again when there is. Until then
// it is known not to be whole, also where the API sends a list as events: client-go trims each
// object of such a list twice.
func TestReadAgain(t *testing.T) {
	for _, streams := range []bool{false, true} {
		t.Run(fmt.Sprintf("streams %t", streams), func(t *testing.T) { readAgainOf(t, streams) })
	}
}

func readAgainOf(t *testing.T, streams bool) {
	a := &api{version: 1, objects: map[string][]runtime.Object{}, changed: make(chan struct{}), asked: map[string]int{}, listed: map[string]int{}, streams: streams}
	const path = "/apis/networking.k8s.io/v1/networkpolicies"
	first, second := named("a", "first", 10), named("a", "second", 10)
	a.set(path, first, second)
	_, s, await := asking(t, a, weigh(&first.Spec)*3/2)
	left := func(c *program.Cluster) (names []string) {
		for _, p := range c.Policies {
			if p.Annotations[program.NotKept] != "" {
				names = append(names, p.Name)
			}
		}
		return names
	}
	await("both policies, one without rules", func(c *program.Cluster) bool { return len(c.Policies) == 2 && len(left(c)) == 1 })
	if s.due() {
		t.Error("they are to be read again though there is no room")
	}
	c, _ := s.cluster(t.Context())
	stays := second
	if left(c)[0] == "first" {
		stays = first
	}
	a.set(path, stays)
	await("the one without rules", func(c *program.Cluster) bool { return len(c.Policies) == 1 && len(left(c)) == 1 })
	if s.due() {
		t.Error("they are read again at once, which a user could have done without end")
	}
	s.mu.Lock()
	s.began = s.began.Add(-readAgain)
	s.mu.Unlock()
	if !s.due() {
		t.Error("there is room, and they are not read again")
	}
	await("the policy with its rules", func(c *program.Cluster) bool { return len(c.Policies) == 1 && len(left(c)) == 0 })
	a.mu.Lock()
	defer a.mu.Unlock()
	if streams && a.listed[path] > 0 {
		t.Errorf("policies were listed %d times by an API that streams them", a.listed[path])
	}
}

// TestSamePods: what did not change is the same object, by which programs know.
func TestSamePods(t *testing.T) {
	s := &source{node: "n"}
	one, two := pod(nil), pod(func(p *corev1.Pod) { p.Name = "q" })
	first := s.podsOf([]any{one, two})
	again := pod(func(p *corev1.Pod) { p.ResourceVersion = "2" })
	labelled := pod(func(p *corev1.Pod) { p.Name, p.Labels = "q", map[string]string{"app": "db"} })
	second := s.podsOf([]any{again, labelled})
	if len(first) != 2 || len(second) != 2 || first[0] != second[0] || first[1] == second[1] || second[1].Labels["app"] != "db" {
		t.Errorf("%v, then %v", first, second)
	}
	gone := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	if third := s.podsOf([]any{gone}); len(third) != 0 || len(s.known) != 1 {
		t.Errorf("%v, known %v", third, s.known)
	}
}
