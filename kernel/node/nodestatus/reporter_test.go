package nodestatus

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
	"pintle.dev/pintle/kernel/node/eviction"
)

// bench is a reporter over an API and a runtime in memory.
type bench struct {
	*testing.T
	*Reporter
	api    *fake.Clientset
	events *record.FakeRecorder
	has    *eviction.Pressures
}

func newBench(t *testing.T, cfg Config) bench {
	t.Helper()
	conn, err := cri.Connect(critest.New(t).Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	cfg.Name, cfg.Hostname, cfg.NodeIPs, cfg.RootDir = "n1", "n1", []string{"10.0.0.1", "fd00::1"}, t.TempDir()
	cfg.Update, cfg.Report = 10*time.Second, 5*time.Minute
	b := bench{T: t, api: fake.NewClientset(), events: record.NewFakeRecorder(100), has: &eviction.Pressures{}}
	b.Reporter = New(cfg, Deps{
		Client: b.api, CRI: cri.New(conn, "n1"), Events: b.events, Port: func() int32 { return 10250 },
		Healthy: func(now time.Time) (time.Time, error) { return now, nil }, Images: func() []*runtimeapi.Image { return nil },
		Pressures: func() eviction.Pressures { return *b.has },
		Held: func(corev1.ResourceList) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	return b
}

func (b bench) register() {
	b.Helper()
	if err := b.Register(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func (b bench) read() *corev1.Node {
	b.Helper()
	node, err := b.api.CoreV1().Nodes().Get(b.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return node
}

// write does what somebody else does to the Node and shows it to the reporter as a watch would.
func (b bench) write(change func(*corev1.Node)) (foreign bool) {
	b.Helper()
	node := b.read()
	change(node)
	node, err := b.api.CoreV1().Nodes().Update(b.Context(), node, metav1.UpdateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return b.Observe(node)
}

func (b bench) writes() (n int) {
	for _, a := range b.api.Actions() {
		if a.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

func condition(node *corev1.Node, t corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// TestConditionsRepaired: a node that was said to be Unknown is Ready with the next round, though it found itself as it
// was.
func TestConditionsRepaired(t *testing.T) {
	b := newBench(t, Config{})
	b.register()
	b.Round(t.Context())
	if b.writes() != 0 {
		t.Fatal("a status that did not change was written")
	}
	unknown := func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].Status, n.Status.Conditions[i].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
		}
	}
	if !b.write(unknown) {
		t.Error("a status that somebody else changed was taken for the reporter's own")
	}
	b.Round(t.Context())
	node := b.read()
	for _, c := range node.Status.Conditions {
		if c.Status == corev1.ConditionUnknown {
			t.Errorf("%s is still Unknown", c.Type)
		}
	}
	if c := condition(node, corev1.NodeReady); c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady" {
		t.Errorf("Ready: %+v", c)
	}
	if b.Observe(node) {
		t.Error("the reporter's own status was taken for somebody else's")
	}
	if b.write(func(n *corev1.Node) { n.Labels["a"] = "b" }) {
		t.Error("a label was taken for a change of the status")
	}
	if b.Object().Labels["a"] != "b" {
		t.Error("what somebody else wrote is not known")
	}
}

// TestObserveOlder: what a watch shows late does not undo what is known, but a Node that was made anew is taken.
func TestObserveOlder(t *testing.T) {
	b := newBench(t, Config{})
	b.register()
	node := b.read()
	newer, older, other := node.DeepCopy(), node.DeepCopy(), node.DeepCopy()
	newer.ResourceVersion, older.ResourceVersion, other.ResourceVersion = "100", "99", "7"
	newer.Labels["seen"], older.Labels["seen"] = "new", "old"
	other.UID = "another"
	b.Observe(newer)
	if b.Observe(older); b.Object().Labels["seen"] != "new" {
		t.Error("an older Node took the place of a newer one")
	}
	if b.Observe(other); b.Object().UID != "another" {
		t.Error("a Node that was made anew is not known")
	}
}

// TestPressureConditions: D3: conditions say what was measured, in the kubelet's words, and events when they change.
func TestPressureConditions(t *testing.T) {
	b := newBench(t, Config{})
	b.register()
	said := func() map[string]int {
		out := map[string]int{}
		for {
			select {
			case e := <-b.events.Events:
				out[strings.Fields(e)[1]]++
			default:
				return out
			}
		}
	}
	if s := said(); s["NodeHasNoDiskPressure"] != 0 {
		t.Errorf("a new node tells of pressures that it never had: %v", s)
	}
	s := b.read().Status
	if left := s.Capacity.Memory().Value() - s.Allocatable.Memory().Value(); left != 100<<20 {
		t.Errorf("the thresholds keep %d bytes free", left)
	}
	is := func(want map[corev1.NodeConditionType]string) {
		t.Helper()
		b.Round(t.Context())
		b.Round(t.Context())
		n := b.read()
		for c, reason := range want {
			if got := condition(n, c); got.Reason != reason || (got.Status == corev1.ConditionTrue) != (strings.Contains(reason, "Insufficient") || reason == "KubeletHasDiskPressure") {
				t.Errorf("%s: %+v, want %s", c, got, reason)
			}
		}
	}
	*b.has = eviction.Pressures{Memory: true, Disk: true, PID: true}
	is(map[corev1.NodeConditionType]string{
		corev1.NodeMemoryPressure: "KubeletHasInsufficientMemory", corev1.NodeDiskPressure: "KubeletHasDiskPressure", corev1.NodePIDPressure: "KubeletHasInsufficientPID",
	})
	if s := said(); s["NodeHasDiskPressure"] != 1 || s["NodeHasInsufficientMemory"] != 1 || s["NodeHasInsufficientPID"] != 1 {
		t.Errorf("events %v", s)
	}
	*b.has = eviction.Pressures{Disk: true}
	is(map[corev1.NodeConditionType]string{
		corev1.NodeMemoryPressure: "KubeletHasSufficientMemory", corev1.NodeDiskPressure: "KubeletHasDiskPressure", corev1.NodePIDPressure: "KubeletHasSufficientPID",
	})
	if s := said(); s["NodeHasDiskPressure"] != 0 || s["NodeHasSufficientMemory"] != 1 {
		t.Errorf("events %v", s)
	}
}

// TestGivenRange: a Node that is made anew does not get the range back that it was given before, as another node may have
// it. The node is not ready without it, and another range ends the agent. A range of the configuration is written.
func TestGivenRange(t *testing.T) {
	const own = "10.244.2.0/24"
	lost := func(b bench) error {
		select {
		case err := <-b.RangeLost():
			return err
		default:
			return nil
		}
	}
	give := func(b bench, cidr string) {
		b.write(func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr} })
	}
	anew := func(given bool) bench {
		b := newBench(t, Config{PodCIDRs: []string{own}, PodCIDRsGiven: given})
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "first"}, Spec: corev1.NodeSpec{PodCIDR: own, PodCIDRs: []string{own}}}
		if _, err := b.api.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.register()
		if c := condition(b.read(), corev1.NodeReady); c.Status != corev1.ConditionTrue {
			t.Errorf("Ready before: %+v", c)
		}
		if err := b.api.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.cfg.Report = 0 // a report is due
		b.Round(t.Context())
		return b
	}
	b := anew(false)
	if node := b.read(); node.Spec.PodCIDR != own || condition(node, corev1.NodeReady).Status != corev1.ConditionTrue {
		t.Errorf("of the configuration: %+v", node)
	}
	b = anew(true)
	b.register() // the Node exists without a range
	node := b.read()
	if node.Spec.PodCIDR != "" || len(node.Spec.PodCIDRs) > 0 {
		t.Errorf("the range is claimed again: %+v", node.Spec)
	}
	if c := condition(node, corev1.NodeReady); c.Status != corev1.ConditionFalse || c.Message != "range of pod IPs 10.244.2.0/24 is not this node's any more: its spec.podCIDRs is []" {
		t.Errorf("Ready without the range: %+v", c)
	}
	if err := lost(b); err != nil {
		t.Errorf("a Node without a range: %v", err)
	}
	give(b, own)
	b.Round(t.Context())
	if c := condition(b.read(), corev1.NodeReady); lost(b) != nil || c.Status != corev1.ConditionTrue {
		t.Errorf("Ready with the same range: %+v", c)
	}
	b = anew(true)
	give(b, "10.244.3.0/24")
	if got := b.read().Status.Addresses; len(got) != 3 || got[0].Address != "10.0.0.1" || got[1].Address != "fd00::1" || got[1].Type != corev1.NodeInternalIP || got[2].Type != corev1.NodeHostName {
		t.Errorf("addresses %v", got)
	}
	// A second range makes it another one: pods lack an address of it.
	second := &corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: []string{own, "fd00:244::/64"}}}
	if b.hasRange(second) {
		t.Error("a second range is not seen")
	}
	b.cfg.PodCIDRs = []string{"fd00:244::/64", own}
	if !b.hasRange(second) {
		t.Error("ranges in another order are others")
	}
	b.cfg.PodCIDRs = []string{own}
	if err := lost(b); err == nil || !strings.Contains(err.Error(), "node n1: its range of pod IPs was 10.244.2.0/24, and is [10.244.3.0/24] since the Node was made anew") {
		t.Errorf("another range: %v", err)
	}
}
