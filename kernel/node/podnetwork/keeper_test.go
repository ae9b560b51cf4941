package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/kernel/node/hollow"
	"pintle.dev/pintle/sdk/network"
)

// plugin does what a test says, and records its diffs.
type plugin struct {
	mu       sync.Mutex
	start    error
	apply    error
	refused  []*network.Refusal
	starts   int
	state    network.State
	diffs    []string
	down     bool // its process is gone
	stopped  bool
	tidy     bool
	key      string
	attempts int
}

func (p *plugin) Probe(context.Context, []byte) error { return nil }
func (p *plugin) Start(context.Context, network.Options) (network.Pods, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts++
	if p.starts == 1 && p.start != nil {
		return network.Pods{}, p.start
	}
	return network.Pods{MTU: 1450, PublicKey: p.key}, nil
}

func (p *plugin) Apply(_ context.Context, d *network.Diff) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts++
	if p.apply != nil {
		return p.apply
	}
	if p.down && !d.GetReset_() {
		return network.ErrReset
	}
	p.down = false
	p.state.Apply(d)
	text := ""
	if d.GetReset_() {
		text = "all"
	}
	for _, n := range d.GetSet() {
		text += fmt.Sprintf(" +%s%v%v%s", n.GetName(), n.GetAddresses(), n.GetPodCidrs(), n.GetPublicKey())
	}
	for _, name := range d.GetRemoved() {
		text += " -" + name
	}
	p.diffs = append(p.diffs, strings.TrimSpace(text))
	return nil
}

func (p *plugin) Status() network.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down || len(p.diffs) == 0 || p.apply != nil {
		return network.Status{Message: "not now"}
	}
	return network.Status{Ready: true, Generation: p.state.Generation, Refused: p.refused}
}

func (p *plugin) Stop(_ context.Context, cleanup bool) error {
	p.stopped, p.tidy = true, cleanup
	return nil
}

func (p *plugin) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.diffs)
}

func nodeAt(name, address, cidr string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-" + "1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{cidr}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func kept(t *testing.T, p *plugin, client *fake.Clientset) *Keeper {
	t.Helper()
	k, err := New(Config{
		Plugin: "x", Connect: func() (network.Network, error) { return p, nil }, Options: network.Options{NodeName: "a"},
		Nodes: client, Client: client, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// condition is the node's, as status and reason.
func condition(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// TestKeeper: the plugin gets the other nodes, and all of them again after it failed; what it
// says of them is in events, and of itself in the condition.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		simulated := nodeAt("simulated", "192.0.2.10", "10.244.8.0/24")
		simulated.Labels = map[string]string{hollow.Label: "true"}
		client := fake.NewClientset(nodeAt("a", "192.0.2.10", "10.244.0.0/24"), nodeAt("b", "192.0.2.11", "10.244.1.0/24"), simulated)
		p := &plugin{start: errors.New("the process is not there yet")}
		k := kept(t, p, client)
		pods, err := k.Start(t.Context())
		if err != nil || pods.MTU != 1450 || p.starts != 2 {
			t.Fatalf("%+v, %v, %d starts", pods, err, p.starts)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		settled := func() {
			t.Helper()
			time.Sleep(3 * look)
			synctest.Wait()
		}
		expect := func(when string, want ...string) {
			t.Helper()
			settled()
			if got := p.told(); !slices.Equal(got, want) {
				t.Fatalf("%s: %q, want %q", when, got, want)
			}
		}
		all := []string{"all +b[192.0.2.11][10.244.1.0/24]"}
		expect("at first", all...)
		if got := condition(t, client); got != "False RouteCreated" {
			t.Errorf("condition %q", got)
		}
		nodes := client.CoreV1().Nodes()
		if _, err := nodes.Create(ctx, nodeAt("c", "192.0.2.12", "10.244.2.0/24"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, "+c[192.0.2.12][10.244.2.0/24]")
		expect("another node", all...)
		changed := nodeAt("b", "192.0.2.99", "10.244.1.0/24")
		if _, err := nodes.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, "+b[192.0.2.99][10.244.1.0/24]")
		expect("another address", all...)
		changed.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		if _, err := nodes.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("a status that is of no concern", all...)
		p.mu.Lock()
		p.down = true
		p.mu.Unlock()
		all = append(all, "all +b[192.0.2.99][10.244.1.0/24] +c[192.0.2.12][10.244.2.0/24]")
		expect("its process was gone", all...)
		if err := nodes.Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, "-c")
		expect("a node went", all...)

		// What is refused is said once, and again when it is something else.
		events := func() (out []string) {
			list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list.Items {
				out = append(out, fmt.Sprintf("%s %s %s: %.60s", e.InvolvedObject.Name, e.Type, e.Reason, e.Message))
			}
			return out
		}
		refuse := func(list ...*network.Refusal) {
			p.mu.Lock()
			p.refused = list
			p.mu.Unlock()
			settled()
		}
		refuse(&network.Refusal{Node: "b", Reason: "its range is another's"}, &network.Refusal{Node: "unknown", Reason: "no such node"})
		settled()
		if got := events(); len(got) != 1 || got[0] != "b Warning FailedToCreateRoute: Could not create route from node a: its range is another's" {
			t.Errorf("events %q", got)
		}
		refuse(&network.Refusal{Node: "b", Reason: strings.Repeat("x", 10_000)})
		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("%d events, %v", len(list.Items), err)
		}
		for _, e := range list.Items {
			if len(e.Message) > 1024 {
				t.Errorf("a plugin wrote an event of %d bytes", len(e.Message))
			}
		}

		// A fault of a while is one of the node; one that ends soon is not.
		p.mu.Lock()
		p.apply = errors.New("no way")
		p.mu.Unlock()
		settled()
		if got := condition(t, client); got != "False RouteCreated" {
			t.Errorf("condition after a moment: %q", got)
		}
		time.Sleep((patience + 1) * look)
		synctest.Wait()
		if got := condition(t, client); got != "True NoRouteCreated" {
			t.Errorf("condition after a while: %q", got)
		}
		p.mu.Lock()
		p.apply = nil
		p.mu.Unlock()
		settled()
		if got := condition(t, client); got != "False RouteCreated" {
			t.Errorf("condition when it works again: %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := k.Stop(t.Context(), true); err != nil || !p.stopped || !p.tidy {
			t.Errorf("stop: %v, %+v", err, p)
		}
	})
}

// TestStartFails: a start that another try does not mend ends at once, and one whose plugin does not come
// after its time.
func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		begin := time.Now()
		p := &plugin{start: status.Error(codes.FailedPrecondition, "the range collides")}
		if _, err := kept(t, p, client).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the range collides") || time.Since(begin) > 0 {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		k := kept(t, p, client)
		k.cfg.Connect = func() (network.Network, error) { return nil, errors.New("no such plugin") }
		if _, err := k.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no such plugin") || time.Since(begin) > startTimeout+soon {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if err := k.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
	})
}

// TestNotKnown: a node that may not list Nodes says so in the condition.
func TestNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(nodeAt("a", "192.0.2.10", "10.244.0.0/24"))
		p := &plugin{}
		k := kept(t, p, client)
		if _, err := k.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range patience {
			k.round(t.Context(), false, true)
		}
		if got := condition(t, client); got != "True NoRouteCreated" || len(p.told()) != 0 {
			t.Errorf("condition %q, told %q", got, p.told())
		}
	})
}

// TestRegistersAnew: a Node that was deleted and is registered again has the condition anew, while
// the network is at fault and while it works.
func TestRegistersAnew(t *testing.T) {
	for want, fault := range map[string]error{"True NoRouteCreated": errors.New("no route"), "False RouteCreated": nil} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset(nodeAt("a", "192.0.2.10", "10.244.0.0/24"))
			k := kept(t, &plugin{apply: fault}, client)
			if _, err := k.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- k.Run(ctx) }()
			time.Sleep((patience + 2) * look)
			if got := condition(t, client); got != want {
				t.Errorf("condition %q, want %q", got, want)
			}
			if err := client.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(look)
			again := nodeAt("a", "192.0.2.10", "10.244.0.0/24")
			again.UID = "uid-2"
			if _, err := client.CoreV1().Nodes().Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * look)
			if got := condition(t, client); got != want {
				t.Errorf("condition of the new Node %q, want %q", got, want)
			}
			writes := len(client.Actions())
			time.Sleep(5 * look)
			if now := len(client.Actions()); now != writes {
				t.Errorf("%d requests though nothing changed", now-writes)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWithdraw: the condition that this package wrote goes, whatever it says, and so does the public key. Others stay. An
// API that does not answer is asked again.
func TestWithdraw(t *testing.T) {
	const own = "pod network bridge: no route"
	for name, tt := range map[string]struct {
		before corev1.NodeCondition
		want   string
	}{
		"at fault":         {corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "NoRouteCreated", Message: own}, ""},
		"works":            {corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "RouteCreated", Message: own}, ""},
		"a cloud's routes": {corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "NoRouteCreated", Message: "RouteController failed to create a route"}, "True NoRouteCreated"},
		"a CNI's":          {corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "CalicoIsDown", Message: own}, "True CalicoIsDown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := nodeAt("a", "192.0.2.10", "10.244.0.0/24")
				tt.before.Type = corev1.NodeNetworkUnavailable
				n.Annotations = map[string]string{KeyAnnotation: "former", "of": "another"}
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, tt.before}
				client := fake.NewClientset(n)
				failures := 3
				client.PrependReactor("get", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
					failures--
					return failures >= 0, nil, errors.New("the API is away")
				})
				Withdraw(t.Context(), client, "a", slog.New(slog.NewTextHandler(t.Output(), nil)))
				if got := condition(t, client); got != tt.want || failures >= 0 {
					t.Errorf("condition %q, want %q; %d failures are left", got, tt.want, failures)
				}
				if n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil || n.Status.Conditions[0].Type != corev1.NodeReady {
					t.Errorf("the node's other condition: %+v, %v", n, err)
				} else if len(n.Annotations) != 1 || n.Annotations["of"] != "another" {
					t.Errorf("annotations %v", n.Annotations)
				}
			})
		})
	}
	Withdraw(t.Context(), fake.NewClientset(), "a", slog.Default()) // a Node that is not registered
}

// TestPublicKey: a Node has the key that its plugin answered, and one that has none takes a former away. Others' keys are
// handed over, but for those that are no keys by their size.
func TestPublicKey(t *testing.T) {
	for _, key := range []string{"mine", ""} {
		synctest.Test(t, func(t *testing.T) {
			own, b, c := nodeAt("a", "192.0.2.10", "10.244.0.0/24"), nodeAt("b", "192.0.2.11", "10.244.1.0/24"), nodeAt("c", "192.0.2.12", "10.244.2.0/24")
			own.Annotations = map[string]string{KeyAnnotation: "former", "of": "another"}
			b.Annotations = map[string]string{KeyAnnotation: "theirs", "of": "another"}
			c.Annotations = map[string]string{KeyAnnotation: strings.Repeat("x", mostKey+1)}
			client := fake.NewClientset(own, b, c)
			failures := 2
			client.PrependReactor("patch", "nodes", func(action k8stesting.Action) (bool, runtime.Object, error) {
				if patch := action.(k8stesting.PatchAction); patch.GetName() != "a" {
					t.Errorf("it writes node %s", patch.GetName())
				}
				failures--
				return failures >= 0, nil, errors.New("the API is away")
			})
			p := &plugin{key: key}
			k := kept(t, p, client)
			if _, err := k.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- k.Run(ctx) }()
			time.Sleep(10 * look)
			n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
			if have, there := n.Annotations[KeyAnnotation]; err != nil || have != key || there != (key != "") || n.Annotations["of"] != "another" {
				t.Errorf("annotations %v, %v; want %q", n.Annotations, err, key)
			}
			writes := len(client.Actions())
			time.Sleep(5 * look)
			if now := len(client.Actions()); now != writes {
				t.Errorf("%d requests though nothing changed", now-writes)
			}
			if told := p.told(); !slices.Equal(told, []string{"all +b[192.0.2.11][10.244.1.0/24]theirs +c[192.0.2.12][10.244.2.0/24]"}) {
				t.Errorf("told %q", told)
			}
			// Another key of another node.
			b.Annotations[KeyAnnotation] = "another"
			if _, err := client.CoreV1().Nodes().Update(ctx, b, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * look)
			if told := p.told(); len(told) != 2 || told[1] != "+b[192.0.2.11][10.244.1.0/24]another" {
				t.Errorf("told %q", told)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	p := &plugin{key: strings.Repeat("x", mostKey+1)}
	synctest.Test(t, func(t *testing.T) {
		if _, err := kept(t, p, fake.NewClientset()).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "its public key has 129 bytes") {
			t.Error(err)
		}
	})
}

// answers is an API by a function.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestKeyIsRefused: a Node that cannot be written is in the log once, and an API that does not answer keeps no diff from the plugin.
func TestKeyIsRefused(t *testing.T) {
	for name, answer := range map[string]answers{
		"refused": func(r *http.Request) (*http.Response, error) {
			body := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "not allowed"}`
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		},
		"no answer": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api.invalid", QPS: -1, Transport: answers(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPatch && !strings.HasSuffix(r.URL.Path, "/status") {
						tries++
					}
					return answer(r)
				})})
				if err != nil {
					t.Fatal(err)
				}
				var log strings.Builder
				p := &plugin{key: "mine"}
				k, err := New(Config{
					Plugin: "x", Connect: func() (network.Network, error) { return p, nil }, Options: network.Options{NodeName: "a"},
					Nodes: fake.NewClientset(nodeAt("a", "192.0.2.10", "10.244.0.0/24"), nodeAt("b", "192.0.2.11", "10.244.1.0/24")), Client: client,
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := k.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- k.Run(ctx) }()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if told := p.told(); len(told) != 1 {
					t.Errorf("told %q", told)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if said := strings.Count(log.String(), "do not know this one's public key"); said != 1 || tries < 2 {
					t.Errorf("%d tries are %d times in the log: %s", tries, said, log.String())
				}
			})
		})
	}
}
