package nodepart

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
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
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/node/cri/critest"
	"pintle.dev/pintle/kernel/node/serviceproxy"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/proxy"
	"pintle.dev/pintle/sdk/runtime"
)

// machine has a runtime plugin that tells how it is started and stopped.
type machine struct {
	socket string
	fault  error // of a start
	// policies is the plugin that enforces network policies; nil: there is none.
	policies proxy.Proxy
	// network connects the pods of machines; nil: there is none.
	network network.Network
	pods    network.Pods // what the runtime got

	mu   sync.Mutex
	told []string
}

func (m *machine) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, fmt.Sprintf(format, args...))
}

func (m *machine) said() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told)
}

func (m *machine) Runtime(string) (runtime.Runtime, error) { return m, nil }
func (m *machine) Proxy(name string) (proxy.Proxy, error) {
	if m.policies == nil {
		return nil, errors.New("no proxy " + name)
	}
	return m.policies, nil
}
func (m *machine) Network(name string) (network.Network, error) {
	if m.network == nil {
		return nil, errors.New("no network " + name)
	}
	return m.network, nil
}
func (m *machine) PluginConfig(string) []byte              { return nil }
func (m *machine) Status(context.Context) (uint64, error)  { return 1, nil }
func (m *machine) Stop(_ context.Context, keep bool) error { m.say("stop, keep %t", keep); return nil }
func (m *machine) Start(_ context.Context, o runtime.Options) (runtime.Endpoint, error) {
	m.say("start %s", o.PodCIDR)
	m.pods = o.Pods
	return runtime.Endpoint{Socket: m.socket}, m.fault
}

// part is a node of the machine, whose pods go on when it stops.
func (m *machine) part(t *testing.T, client *fake.Clientset) *Part {
	t.Helper()
	cfg := config.Default()
	cfg.Node.Runtime, cfg.Node.PodCIDR, cfg.Node.CgroupRoot, cfg.Node.KubeletPort = "fake", "", "", 0
	dir := t.TempDir()
	p, err := New(Config{
		Name: "n", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Settings: func() *config.Config { return cfg }, KubeletVersion: "v1",
		Data: dir, Pods: dir, Logs: dir, Sockets: dir,
	}, Deps{Plugins: m, Client: client, Serving: &tls.Config{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAnotherRange: a node that is given another range while it runs starts anew with it, and
// pods of the former one do not go on. What runs beside the node goes on.
func TestAnotherRange(t *testing.T) {
	m := &machine{socket: critest.New(t).Endpoint}
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.2.0/24"}}})
	p := m.part(t, client)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	limit := time.After(2 * time.Minute)
	await := func(want ...string) {
		t.Helper()
		for !slices.Equal(m.said(), want) {
			select {
			case err := <-ended:
				t.Fatalf("it ended: %v; the runtime was told %q", err, m.said())
			case <-limit:
				t.Fatalf("the runtime was told %q, want %q", m.said(), want)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	await("start 10.244.2.0/24")
	select {
	case <-p.Ready():
	case err := <-ended:
		t.Fatal(err)
	case <-limit:
		t.Fatal("the node is not ready")
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.PodCIDRs = []string{"10.244.3.0/24"}
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("start 10.244.2.0/24", "stop, keep false", "start 10.244.3.0/24")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	await("start 10.244.2.0/24", "stop, keep false", "start 10.244.3.0/24", "stop, keep true")
}

// TestFaultEndsNode: what fails for another reason is not tried again for ever.
func TestFaultEndsNode(t *testing.T) {
	m := &machine{fault: errors.New("no runtime here")}
	p := m.part(t, fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.2.0/24"}}}))
	if err := p.Run(t.Context()); !errors.Is(err, m.fault) {
		t.Error(err)
	}
	if err := p.Stop(t.Context()); err != nil || len(m.said()) != 1 {
		t.Errorf("%v, %q", err, m.said())
	}
}

// enforcer is a plugin of network policies.
type enforcer struct {
	proxy.Proxy
	machine *machine
}

func (e *enforcer) Probe(context.Context, []byte) error { return nil }
func (e *enforcer) Status() proxy.Status                { return proxy.Status{Ready: true} }
func (e *enforcer) Start(context.Context, proxy.Options) error {
	e.machine.say("policies")
	return nil
}
func (e *enforcer) Stop(_ context.Context, cleanup bool) error {
	e.machine.say("no policies, cleanup %t", cleanup)
	return nil
}

// TestPoliciesAreNamedFirst: rules come into force when their plugin's name is written, by which a later start finds
// them; where that fails none do.
func TestPoliciesAreNamedFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		blocked bool // the name cannot be written
		want    []string
	}{
		"written": {want: []string{"policies", "no policies, cleanup false"}},
		"blocked": {blocked: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			m.policies = &enforcer{machine: m}
			p := m.part(t, fake.NewClientset())
			cfg := *p.Settings()
			cfg.Node.Policies = "enforcer"
			kept := filepath.Join(p.Data, "networkpolicy", "kept")
			if tt.blocked {
				if err := os.MkdirAll(kept, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			list := parts.New(slog.New(slog.DiscardHandler))
			if err := p.startPolicies(t.Context(), list, &cfg); (err != nil) != tt.blocked {
				t.Error(err)
			}
			if by, err := os.ReadFile(kept); !tt.blocked && (err != nil || string(by) != "enforcer") {
				t.Errorf("%q, %v", by, err)
			}
			if err := list.Stop(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(m.said(), tt.want) {
				t.Errorf("the plugin was told %q, want %q", m.said(), tt.want)
			}
		})
	}
}

// podNetwork is a network plugin.
type podNetwork struct {
	network.Network
	machine *machine
	options network.Options
	fault   error
}

func (n *podNetwork) Probe(context.Context, []byte) error { return nil }
func (n *podNetwork) Status() network.Status              { return network.Status{Ready: true} }
func (n *podNetwork) Start(_ context.Context, o network.Options) (network.Pods, error) {
	n.options = o
	n.machine.say("network of %s in %s", o.PodCIDRs, o.ClusterCIDRs)
	return network.Pods{MTU: 1450}, n.fault
}
func (n *podNetwork) Apply(context.Context, *network.Diff) error { return nil }
func (n *podNetwork) Stop(_ context.Context, cleanup bool) error {
	n.machine.say("no network, cleanup %t", cleanup)
	return nil
}

// TestNetworkIsFirst: the network starts before the runtime, which gets the way to make pods' interfaces, and
// ends after it. A node whose network cannot start does not.
func TestNetworkIsFirst(t *testing.T) {
	for name, fault := range map[string]error{"starts": nil, "a range collides": status.Error(codes.FailedPrecondition, "the range is a network of eth0")} {
		t.Run(name, func(t *testing.T) {
			m := &machine{socket: critest.New(t).Endpoint}
			plugin := &podNetwork{machine: m, fault: fault}
			m.network = plugin
			client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.2.0/24"}}})
			p := m.part(t, client)
			cfg := p.Settings()
			cfg.Node.Network, cfg.Node.ClusterCIDRs, cfg.Node.OnStop = "fake", []string{"10.244.0.0/16"}, config.StopPods
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			if fault != nil {
				if err := <-ended; err == nil || !strings.Contains(err.Error(), "the range is a network of eth0") {
					t.Error(err)
				}
				stop()
				if err := p.Stop(t.Context()); err != nil || len(m.said()) != 1 {
					t.Errorf("%v, %q", err, m.said())
				}
				return
			}
			select {
			case <-p.Ready():
			case err := <-ended:
				t.Fatal(err)
			case <-time.After(2 * time.Minute):
				t.Fatal("the node is not ready")
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			want := []string{"network of [10.244.2.0/24] in [10.244.0.0/16]", "start 10.244.2.0/24", "stop, keep false", "no network, cleanup true"}
			if got := m.said(); !slices.Equal(got, want) || m.pods.MTU != 1450 {
				t.Errorf("%q, want %q; pods %+v", got, want, m.pods)
			}
		})
	}
}

// TestFormerNetwork: a node that is started without a pod network does not keep what an earlier start said of
// one. It waits for no former network, and a file of their names that cannot be read ends nothing.
func TestFormerNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		kept  string
		hangs bool // the former network's removal
	}{
		"no former one": {},
		"one hangs":     {kept: "old", hangs: true},
		"unreadable":    {kept: strings.Repeat("x", mostKept+1)},
	} {
		t.Run(name, func(t *testing.T) { withdraws(t, tt.kept, tt.hangs) })
	}
}

func withdraws(t *testing.T, kept string, hangs bool) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated", Message: "pod network bridge: no route"},
	}}})
	changes, err := client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	m := &machine{}
	p := m.part(t, client)
	plugins := &formerPlugins{machine: m}
	if hangs {
		plugins.hang = make(chan struct{})
	}
	p.deps.Plugins = plugins
	keepNames(t, p, kept)
	list := parts.New(slog.New(slog.DiscardHandler))
	if _, err := p.startNetwork(t.Context(), list, p.Settings()); err != nil {
		t.Fatal(err)
	}
	limit := time.After(2 * time.Minute)
	for stays := true; stays; {
		select {
		case e := <-changes.ResultChan(): // the first may be what was there before
			n, ok := e.Object.(*corev1.Node)
			stays = !ok || len(n.Status.Conditions) > 0
		case err := <-list.Failed():
			t.Fatal(err)
		case <-limit:
			t.Fatal("the condition stays")
		}
	}
	if hangs {
		close(plugins.hang)
	}
	if err := list.Stop(); err != nil {
		t.Error(err)
	}
}

// TestFormerNetworkIsRemoved: a start with another network, or with none, has the former one remove
// what it left. One that cannot is tried again at the next start.
func TestFormerNetworkIsRemoved(t *testing.T) {
	for name, tt := range map[string]struct {
		kept, now string
		faults    int  // of removals
		absent    bool // no bundle has the former network
		want      []string
		after     string
	}{
		"the same":      {kept: "old", now: "old", want: []string{"start old"}, after: "old"},
		"the first":     {now: "new", want: []string{"start new"}, after: "new"},
		"another":       {kept: "old", now: "new", want: []string{"remove old", "start new"}, after: "new"},
		"two":           {kept: "old\nolder\nnew\nold", now: "new", want: []string{"remove old", "remove older", "start new"}, after: "new"},
		"not there yet": {kept: "old", now: "new", faults: 2, want: []string{"remove old", "remove old", "remove old", "start new"}, after: "new"},
		"not loaded":    {kept: "old", now: "new", absent: true, want: []string{"start new"}, after: "old\nnew"},
		"none":          {kept: "old", want: []string{"remove old"}},
		"none, absent":  {kept: "old", absent: true, after: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			p := m.part(t, fake.NewClientset())
			plugins := &formerPlugins{machine: m, faults: tt.faults}
			if tt.absent {
				plugins.absent = "old"
			}
			p.deps.Plugins = plugins
			kept := keepNames(t, p, tt.kept)
			cfg := *p.Settings()
			cfg.Node.Network, cfg.Node.ClusterCIDRs, cfg.Node.PodCIDR = tt.now, []string{"10.244.0.0/16"}, "10.244.2.0/24"
			list := parts.New(slog.New(slog.DiscardHandler))
			if _, err := p.startNetwork(t.Context(), list, &cfg); err != nil {
				t.Fatal(err)
			}
			limit := time.After(2 * time.Minute)
			for {
				after, err := os.ReadFile(kept)
				said := m.said()
				slices.Sort(said) // former ones are removed at once; a start follows
				if string(after) == tt.after && (err == nil) == (tt.after != "") && slices.Equal(said, tt.want) {
					break
				}
				select {
				case err := <-list.Failed():
					t.Fatal(err)
				case <-limit:
					t.Fatalf("plugins were told %q, want %q; the file has %q, want %q", m.said(), tt.want, after, tt.after)
				case <-time.After(10 * time.Millisecond):
				}
			}
			if err := list.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// keepNames writes which networks a part used before, and returns the file.
func keepNames(t *testing.T, p *Part, names string) string {
	t.Helper()
	state := filepath.Join(p.Data, "network")
	err := os.MkdirAll(state, 0o700)
	kept := filepath.Join(state, "kept")
	if err == nil && names != "" {
		err = os.WriteFile(kept, []byte(names), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestFormerNetworksWaitOnce: the node's start waits once for all that never run, however many there are, and
// those that run are removed meanwhile.
func TestFormerNetworksWaitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		p := &Part{deps: Deps{Plugins: &formerPlugins{machine: m, never: []string{"a", "b", "c"}}, Logger: slog.New(slog.DiscardHandler)}}
		p.Data = t.TempDir()
		f := formerNetworks{part: p, file: keepNames(t, p, "a\nb\nold\nc")}
		begin := time.Now()
		if err := f.remove(t.Context(), "new"); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != formerTimeout { // the bubble's clock
			t.Errorf("the start waited for %s, want %s", got, formerTimeout)
		}
		if got, err := f.names(); err != nil || !slices.Equal(got, []string{"a", "b", "c", "new"}) {
			t.Errorf("%q are kept, %v", got, err)
		}
		if !slices.Contains(m.said(), "remove old") {
			t.Errorf("the one that runs is not removed: %q", m.said())
		}
	})
}

// TestNotesOfFormerNetworkStay: a network that leaves nothing takes no notes of another with it, and without
// any the folder goes.
func TestNotesOfFormerNetworkStay(t *testing.T) {
	for _, note := range []string{"", "ip_forward"} {
		m := &machine{}
		p := m.part(t, fake.NewClientset())
		p.deps.Plugins = &formerPlugins{machine: m}
		kept := keepNames(t, p, "old")
		state := filepath.Dir(kept)
		if note != "" {
			if err := os.WriteFile(filepath.Join(state, note), []byte("0"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := p.Settings()
		cfg.Node.Network, cfg.Node.ClusterCIDRs, cfg.Node.PodCIDR, cfg.Node.OnStop = "new", []string{"10.244.0.0/16"}, "10.244.2.0/24", config.StopPods
		list := parts.New(slog.New(slog.DiscardHandler))
		if _, err := p.startNetwork(t.Context(), list, cfg); err != nil {
			t.Fatal(err)
		}
		if err := list.Stop(); err != nil {
			t.Error(err)
		}
		if got, want := m.said(), []string{"remove old", "start new", "remove new"}; !slices.Equal(got, want) {
			t.Errorf("plugins did %q, want %q", got, want)
		}
		if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("names of networks stay: %v", err)
		}
		if note == "" {
			if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder stays: %v", err)
			}
			continue
		}
		if data, err := os.ReadFile(filepath.Join(state, note)); err != nil || string(data) != "0" {
			t.Errorf("the note of a former network is %q, %v", data, err)
		}
	}
}

// TestNamesAreWrittenWhole: a crash leaves the names of before or those of now. The file of before is
// never written into.
func TestNamesAreWrittenWhole(t *testing.T) {
	p := &Part{}
	p.Data = t.TempDir()
	f := formerNetworks{part: p, file: keepNames(t, p, "old\nolder")}
	before := filepath.Join(p.Data, "before")
	if err := os.Link(f.file, before); err != nil {
		t.Fatal(err)
	}
	if err := f.write([]string{"new"}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(before); err != nil || string(data) != "old\nolder" {
		t.Errorf("the file of before has %q, %v", data, err)
	}
	if got, err := f.names(); err != nil || !slices.Equal(got, []string{"new"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// formerPlugins has a network of each name but absent.
type formerPlugins struct {
	*machine
	absent string
	faults int
	never  []string      // whose processes never run
	hang   chan struct{} // a removal waits until it is closed; nil: none does
}

func (f *formerPlugins) Network(name string) (network.Network, error) {
	if name == f.absent {
		return nil, errors.New("no loaded bundle has network " + name)
	}
	return &formerNetwork{plugins: f, name: name}, nil
}

type formerNetwork struct {
	network.Network
	plugins *formerPlugins
	name    string
}

func (n *formerNetwork) Probe(context.Context, []byte) error { return nil }
func (n *formerNetwork) Status() network.Status              { return network.Status{Ready: true} }
func (n *formerNetwork) Apply(context.Context, *network.Diff) error {
	return nil
}
func (n *formerNetwork) Start(context.Context, network.Options) (network.Pods, error) {
	n.plugins.say("start %s", n.name)
	return network.Pods{}, nil
}
func (n *formerNetwork) Stop(_ context.Context, cleanup bool) error {
	if !cleanup {
		return nil
	}
	if slices.Contains(n.plugins.never, n.name) {
		return errors.New("its process does not run")
	}
	if n.plugins.hang != nil {
		<-n.plugins.hang
	}
	n.plugins.say("remove %s", n.name)
	if n.plugins.faults > 0 {
		n.plugins.faults--
		return errors.New("its process is not there yet")
	}
	return nil
}

// TestNoClusterDNS: on a machine without a kernel pods are given the address of the cluster's DNS while the
// cluster has its service, and an address that the configuration names always.
func TestNoClusterDNS(t *testing.T) {
	own, there := new(serviceproxy.Own), false
	cfg := config.Default()
	cfg.Node.DNS, cfg.Node.ClusterDNS = "coredns", nil
	absent := noClusterDNS(cfg, own)
	if absent() {
		t.Error("what is not known yet is absent")
	}
	defer own.Follow(nil, func(name proxy.Name) bool { return !there || name.String() != "kube-system/kube-dns" })()
	if !absent() {
		t.Error("the cluster has no service, and pods get its address")
	}
	if there = true; absent() {
		t.Error("the service came, and pods that start do not get its address")
	}
	if noClusterDNS(cfg, nil) != nil {
		t.Error("a kernel makes the service itself")
	}
	if cfg.Node.ClusterDNS = []string{"192.0.2.53"}; noClusterDNS(cfg, own) != nil {
		t.Error("an address that is named depends on the service")
	}
}
