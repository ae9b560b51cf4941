package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/sdk/controller"
)

// A watch of the fake holds 100 events, and panics at one more: a busy machine may let the
// reader wait for longer than it takes to write these.
func init() { watch.DefaultChanSize = 10_000 }

var (
	nodesOf = corev1.SchemeGroupVersion.WithResource("nodes")
	errDead = errors.New("the controller's process is dead")
)

func newNode(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	n.Spec.PodCIDRs = cidrs
	return n
}

// world is an API of nodes that lets a range be set once, and a controller on a cache that refresh fills.
type world struct {
	*testing.T
	client *fake.Clientset
	config string
	i      *ipam
	cached cache.Indexer
	events *record.FakeRecorder

	mu     sync.Mutex
	writes int
	dieAt  int  // the write after which the process is dead; 0: none
	lost   bool // the write happens, and its answer does not come
	fails  int  // writes that are refused
}

func newWorld(t *testing.T, config string, nodes ...*corev1.Node) *world {
	t.Helper()
	w := &world{T: t, client: fake.NewSimpleClientset(), config: config}
	w.client.PrependReactor("patch", "nodes", w.patch)
	for _, n := range nodes {
		w.put(n)
	}
	w.restart()
	return w
}

func (w *world) patch(a k8stesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.fails > 0 {
		w.fails--
		return true, nil, apierrors.NewServerTimeout(corev1.Resource("nodes"), "patch", 1)
	}
	dead := w.dieAt > 0 && w.writes >= w.dieAt
	if dead && !w.lost {
		return true, nil, errDead
	}
	p := a.(k8stesting.PatchAction)
	obj, err := w.client.Tracker().Get(nodesOf, "", p.GetName())
	if err != nil {
		return true, nil, err
	}
	var change corev1.Node
	if err := json.Unmarshal(p.GetPatch(), &change); err != nil {
		return true, nil, err
	}
	n := obj.(*corev1.Node).DeepCopy()
	if n.UID != change.UID {
		return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), n.Name, errors.New("another UID"))
	}
	if len(n.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, change.Spec.PodCIDRs) {
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), n.Name, nil)
	}
	if change.Spec.PodCIDR != change.Spec.PodCIDRs[0] {
		w.Errorf("podCIDR %s of %v", change.Spec.PodCIDR, change.Spec.PodCIDRs)
	}
	n.Spec.PodCIDR, n.Spec.PodCIDRs = change.Spec.PodCIDR, change.Spec.PodCIDRs
	if err := w.client.Tracker().Update(nodesOf, n, ""); err != nil {
		return true, nil, err
	}
	if dead {
		return true, nil, errDead
	}
	return true, n, nil
}

func (w *world) put(n *corev1.Node) {
	w.Helper()
	err := w.client.Tracker().Update(nodesOf, n.DeepCopy(), "")
	if apierrors.IsNotFound(err) {
		err = w.client.Tracker().Create(nodesOf, n.DeepCopy(), "")
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.Helper()
	if err := w.client.Tracker().Delete(nodesOf, "", name); err != nil {
		w.Fatal(err)
	}
}

func (w *world) nodes() []corev1.Node {
	w.Helper()
	list, err := w.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// restart is a new process of the controller.
func (w *world) restart() {
	w.Helper()
	shared := informers.NewSharedInformerFactory(w.client, 0)
	w.i = build(w.client, shared, pools(w.T, w.config), slog.New(slog.DiscardHandler))
	w.Cleanup(w.i.Close)
	w.events = record.NewFakeRecorder(100000)
	w.i.Recorder, w.dieAt = w.events, 0
	w.cached = shared.Core().V1().Nodes().Informer().GetIndexer()
	w.refresh()
}

func (w *world) refresh() (names []string) {
	w.Helper()
	var all []any
	for _, n := range w.nodes() {
		all = append(all, &n)
		names = append(names, n.Name)
	}
	slices.Sort(names)
	if err := w.cached.Replace(all, ""); err != nil {
		w.Fatal(err)
	}
	return names
}

// settle works on all nodes, and on those that are gone, until nothing is written.
func (w *world) settle(gone ...string) {
	w.Helper()
	for range 100 {
		before := w.writes
		for _, name := range append(slices.Clone(gone), w.refresh()...) {
			if err := w.i.sync(w.Context(), name); w.dieAt > 0 && w.writes >= w.dieAt && err != nil {
				w.restart()
			}
		}
		if w.refresh(); w.writes == before {
			w.distinct()
			return
		}
	}
	w.Fatal("no end")
}

// distinct: no two nodes share an address, and none has one of services.
func (w *world) distinct() {
	w.Helper()
	owners := map[netip.Prefix]string{}
	for _, n := range w.nodes() {
		for _, text := range n.Spec.PodCIDRs {
			p := netip.MustParsePrefix(text)
			if p.Overlaps(netip.MustParsePrefix("10.7.1.0/24")) {
				w.Errorf("%s has %s of services", n.Name, p)
			}
			for other, owner := range owners {
				if other.Overlaps(p) {
					w.Errorf("%s has %s, %s has %s", n.Name, p, owner, other)
				}
			}
			owners[p] = n.Name
		}
	}
}

func (w *world) of(name string) string {
	for _, n := range w.nodes() {
		if n.Name == name {
			return strings.Join(n.Spec.PodCIDRs, ",")
		}
	}
	return "gone"
}

func (w *world) told() string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

const (
	small = `{"clusterCIDR":"10.7.0.0/21","serviceCIDR":"10.7.1.0/24"}` // seven nodes
	dual  = `{"clusterCIDR":"10.7.0.0/16,fd00::/62","serviceCIDR":"10.7.1.0/24"}`
)

// A controller that dies before or after any of its writes, and is started anew, gives no range twice and leaves no
// node without one.
func TestCrashAtEachWrite(t *testing.T) {
	life := func(w *world) {
		w.settle()
		w.put(newNode("d"))
		w.put(newNode("own", "10.7.5.0/24"))
		w.settle()
		w.remove("a")
		again := newNode("b")
		again.UID = "another"
		w.put(again)
		w.settle("a")
		w.put(newNode("e"))
		w.put(newNode("f"))
		w.settle()
	}
	begin := func() *world { return newWorld(t, small, newNode("a"), newNode("b"), newNode("c")) }
	w := begin()
	life(w)
	writes := w.writes
	if writes < 7 {
		t.Fatalf("%d writes only", writes)
	}
	for n := 1; n <= writes; n++ {
		for _, lost := range []bool{false, true} {
			w := begin()
			w.dieAt, w.lost = n, lost
			life(w)
			for _, node := range w.nodes() {
				if len(node.Spec.PodCIDRs) != 1 {
					t.Fatalf("dead at write %d of %d (answer lost: %t): %s has %v", n, writes, lost, node.Name, node.Spec.PodCIDRs)
				}
			}
		}
	}
}

// Each node has one range of each family.
func TestDualStack(t *testing.T) {
	w := newWorld(t, dual, newNode("a"), newNode("b"), newNode("c"), newNode("d"))
	w.settle()
	if got := w.of("a"); got != "10.7.0.0/24,fd00::/64" {
		t.Errorf("a: %s", got)
	}
	w.put(newNode("e"))
	for range 300 { // more often than there are ranges of IPv4
		w.refresh()
		if err := w.i.sync(t.Context(), "e"); !errors.Is(err, errNone) || !strings.Contains(err.Error(), "node e: no free range of pod IPs is left in clusterCIDR fd00::/62") {
			t.Fatal(err)
		}
	}
	w.remove("b")
	w.settle("b")
	if got := w.of("e"); !strings.HasSuffix(got, ",fd00:0:0:1::/64") {
		t.Errorf("e: %s", got)
	}
}

// A node that finds no range is told of, waits, and gets that of a node that goes.
func TestRunsOut(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 9 {
		nodes = append(nodes, newNode(fmt.Sprint("n", i)))
	}
	w := newWorld(t, small, nodes...)
	w.settle()
	if a, b := w.of("n7"), w.of("n8"); a != "" || b != "" {
		t.Errorf("%s, %s of seven ranges", a, b)
	}
	if told := w.told(); !strings.Contains(told, "Normal CIDRNotAvailable Node n7 status is now: CIDRNotAvailable") {
		t.Errorf("told %q", told)
	}
	w.remove("n3")
	w.refresh()
	if err := w.i.sync(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	if n := w.i.Len(); n != 1 { // one range, one node
		t.Errorf("%d nodes are woken", n)
	}
	w.settle()
	if a, b := w.of("n7"), w.of("n8"); a+b != "10.7.4.0/24" {
		t.Errorf("%q and %q", a, b)
	}
}

// Ranges that nodes have by themselves are respected, wherever they lie, whoever has them too.
func TestOwnRanges(t *testing.T) {
	w := newWorld(t, small, newNode("first", "10.7.0.0/24"), newNode("twin", "10.7.0.0/24"), newNode("large", "10.7.2.0/23"), newNode("tiny", "10.7.4.128/30"),
		newNode("outside", "192.168.0.0/24"), newNode("six", "fd00::/64"), newNode("nonsense", "nonsense"), newNode("a"), newNode("b"), newNode("c"), newNode("d"))
	for range 3 {
		for _, name := range w.refresh() {
			_ = w.i.sync(t.Context(), name)
		}
	}
	for name, want := range map[string]string{"a": "10.7.5.0/24", "b": "10.7.6.0/24", "c": "10.7.7.0/24", "d": "", "outside": "192.168.0.0/24"} {
		if got := w.of(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	w.remove("first") // its twin still has the range
	w.refresh()
	_ = w.i.sync(t.Context(), "first")
	if err := w.i.sync(t.Context(), "d"); !errors.Is(err, errNone) {
		t.Errorf("%v, %s", err, w.of("d"))
	}
	w.remove("large")
	w.refresh()
	_ = w.i.sync(t.Context(), "large")
	if err := w.i.sync(t.Context(), "d"); err != nil || w.of("d") != "10.7.2.0/24" {
		t.Errorf("%v, %s", err, w.of("d"))
	}
	// One that takes all: others wait, and nobody else's range is taken.
	w = newWorld(t, small, newNode("a"), newNode("all", "10.0.0.0/8"))
	w.refresh()
	if err := w.i.sync(t.Context(), "a"); !errors.Is(err, errNone) {
		t.Error(err)
	}
	w.remove("all")
	w.settle("all")
	if got := w.of("a"); got != "10.7.0.0/24" {
		t.Errorf("a: %s", got)
	}
}

// A write that fails is tried again with the same range, and told of; the cache may be behind.
func TestFailures(t *testing.T) {
	w := newWorld(t, small, newNode("a"), newNode("b"))
	w.fails = 2
	if err := w.i.sync(t.Context(), "a"); err != nil || w.told() != "" || w.of("a") != "10.7.0.0/24" {
		t.Errorf("two refusals: %v, %s", err, w.of("a"))
	}
	w.fails = 3
	if err := w.i.sync(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "node b: assign [10.7.2.0/24]") {
		t.Error(err)
	}
	if told := w.told(); told != "Normal CIDRAssignmentFailed Node b status is now: CIDRAssignmentFailed" {
		t.Errorf("told %q", told)
	}
	for range 3 { // the cache does not show it
		if err := w.i.sync(t.Context(), "b"); err != nil || w.of("b") != "10.7.2.0/24" {
			t.Errorf("%v, %s", err, w.of("b"))
		}
	}
	if n := w.i.ranges.pools[0].taken; n != 3 { // with that of services
		t.Errorf("%d ranges are taken", n)
	}
	// A node that got another range from somebody else keeps it.
	w.put(newNode("c"))
	w.refresh()
	w.put(newNode("c", "10.7.6.0/24"))
	if err := w.i.sync(t.Context(), "c"); err == nil {
		t.Error("a range was changed")
	}
	w.settle()
	if got := w.of("c"); got != "10.7.6.0/24" || w.i.ranges.pools[0].taken != 4 {
		t.Errorf("c: %s, %d are taken", got, w.i.ranges.pools[0].taken)
	}
	// One that is gone, and one that is going.
	w.put(newNode("d"))
	w.refresh()
	w.remove("d")
	if err := w.i.sync(t.Context(), "d"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	w.refresh()
	if err := w.i.sync(t.Context(), "d"); err != nil || w.i.ranges.pools[0].taken != 4 {
		t.Errorf("%v, %d are taken", err, w.i.ranges.pools[0].taken)
	}
	going := newNode("e")
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	w.put(going)
	w.refresh()
	if err := w.i.sync(t.Context(), "e"); err != nil || w.of("e") != "" {
		t.Errorf("%v, %s", err, w.of("e"))
	}
}

// Hundreds of nodes at once, with all workers: each has a range of its own, and a second controller finds nothing to do.
func TestManyNodes(t *testing.T) {
	defer goleak.VerifyNone(t)
	const many = 255 // without the one of services
	var nodes []*corev1.Node
	for i := range many {
		nodes = append(nodes, newNode(fmt.Sprint("n", i)))
	}
	w := newWorld(t, `{"clusterCIDR":"10.7.0.0/16","serviceCIDR":"10.7.1.0/24"}`, nodes...)
	w.i.Close()
	run := func() {
		shared := informers.NewSharedInformerFactory(w.client, 0)
		runner, err := New(&controller.Context{Client: w.client, Informers: shared, Logger: slog.New(slog.DiscardHandler),
			Config: []byte(`{"allocateNodeCIDRs":true,"clusterCIDR":"10.7.0.0/16","serviceCIDR":"10.7.1.0/24"}`)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stop, done := make(chan struct{}), make(chan error, 1)
		shared.Start(stop)
		go func() { done <- runner.Run(ctx) }()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
			left := 0
			for _, n := range w.nodes() {
				if len(n.Spec.PodCIDRs) == 0 {
					left++
				}
			}
			if left == 0 && runner.(*ipam).Len() == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d nodes have no range", left)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		close(stop)
		shared.Shutdown()
	}
	run()
	w.distinct()
	writes := w.writes
	run()
	if w.writes != writes {
		t.Errorf("%d writes by a second controller", w.writes-writes)
	}
}

// Without allocateNodeCIDRs nothing is watched and nothing done, whatever else is configured.
func TestOff(t *testing.T) {
	client := fake.NewClientset(newNode("a"))
	shared := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{Client: client, Informers: shared, Logger: slog.New(slog.DiscardHandler), Config: []byte(`{"clusterCIDR":"nonsense"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	shared.Start(ctx.Done())
	cancel()
	if err := runner.Run(ctx); err != nil || len(client.Actions()) != 0 {
		t.Errorf("%v, %v", err, client.Actions())
	}
	if _, err := New(&controller.Context{Client: client, Informers: shared, Config: []byte(`{"allocateNodeCIDRs":true}`)}); err == nil || !strings.Contains(err.Error(), "clusterCIDR is empty") {
		t.Error(err)
	}
}

// Heartbeats are no work.
func TestHandler(t *testing.T) {
	w := newWorld(t, small)
	beat := newNode("c", "10.7.0.0/24")
	beat.Status.Phase = corev1.NodeRunning
	other := newNode("a", "10.7.0.0/24")
	other.UID = "another"
	for name, tt := range map[string]struct {
		old, node *corev1.Node
		want      int
	}{
		"new": {nil, newNode("a"), 1}, "gone": {newNode("b"), nil, 1}, "heartbeat": {newNode("c", "10.7.0.0/24"), beat, 0},
		"replaced": {newNode("a", "10.7.0.0/24"), other, 1}, "lacks one": {newNode("d"), newNode("d"), 1}, "got one": {newNode("e"), newNode("e", "10.7.0.0/24"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w.restart()
			w.i.changed(tt.old, tt.node)
			if n := w.i.Len(); n != tt.want {
				t.Errorf("%d keys", n)
			}
		})
	}
}
