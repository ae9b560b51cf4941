package resultcache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// world is a snapshot with the plugins over it, driven by hand.
type world struct {
	t        testing.TB
	random   *rand.Rand
	snapshot *View
	replica  *snapshot.Replica
	policy   *schedulertest.GuestPolicy
	alone    *schedulertest.GuestPolicy // the same plugins, each asked alone
	fresh    *schedulertest.GuestPolicy // or nil: the same, fed once with everything
	nodes    []string
	pods     map[types.UID]*snapshot.Pod
	nominees []nominee
	classes  []*Class
	serial   int
}

// nominee is a pod that is nominated to a node.
type nominee struct {
	pod  *snapshot.Pod
	node string
}

func newWorld(t testing.TB, seed uint64, script ...byte) *world {
	w := &world{
		t: t, random: schedulertest.NewDice(seed, script), snapshot: NewView(snapshot.NewSnapshot()), replica: snapshot.NewReplica(0),
		pods: map[types.UID]*snapshot.Pod{},
	}
	for _, p := range []**schedulertest.GuestPolicy{&w.policy, &w.alone} {
		*p = schedulertest.NewGuestPolicy(t, w.replica.Full,
			[]sdk.Predicate{schedulertest.SelectNode, schedulertest.PerZone, schedulertest.FitCPU, schedulertest.Feuding, schedulertest.ZoneVolume}, []sdk.Priority{schedulertest.LeastCPU, schedulertest.FewPods, schedulertest.Feared, schedulertest.BigNode, schedulertest.Spread, schedulertest.Crowd})
	}
	w.snapshot.ApplyHypothetical = func(_ context.Context, operations []*contractv1.Operation) error {
		w.apply(operations)
		return nil
	}
	return w
}

func (w *world) flush() {
	w.apply(w.snapshot.Pending)
	w.snapshot.Pending = nil
}

func (w *world) apply(operations []*contractv1.Operation) {
	delta := w.replica.Advance(operations)
	for _, p := range []*schedulertest.GuestPolicy{w.policy, w.alone, w.fresh} {
		if p == nil {
			continue
		}
		if err := p.Apply(w.t.Context(), delta); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) shape(kind int) *snapshot.Shape {
	p := schedulertest.MakePod("class", int64(kind%3)*300)
	p.Labels = map[string]string{"app": fmt.Sprint("app", kind%2)}
	if kind%4 == 1 {
		p.Labels["exclusive"] = "yes"
	}
	if kind%5 == 2 {
		p.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint("z", kind%3)}
	}
	if kind%5 == 3 {
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	converted, err := convert.NewPod(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return &snapshot.Shape{Pod: converted}
}

func (w *world) node(name string) *contractv1.Node {
	return convert.Node(schedulertest.MakeNode(name, int64(500+w.random.IntN(4)*500), map[string]string{"zone": fmt.Sprint("z", w.random.IntN(3))}))
}

// change does something random to the cluster.
func (w *world) change() {
	pick := func() string { return w.nodes[w.random.IntN(len(w.nodes))] }
	switch k := w.random.IntN(14); {
	case k > 12 && len(w.nominees) > 0:
		w.snapshot.Unnominate(w.nominees[0].pod, w.nominees[0].node)
		w.nominees = w.nominees[1:]
	case k > 11 && len(w.nodes) > 0:
		w.serial++
		p := nominee{&snapshot.Pod{UID: types.UID(fmt.Sprint("u", w.serial)), Namespace: "a", Name: fmt.Sprint("p", w.serial), Shape: w.shape(w.random.IntN(60))}, pick()}
		w.nominees = append(w.nominees, p)
		w.snapshot.Nominate(p.pod, p.node)
	case k == 0 || len(w.nodes) == 0:
		w.serial++
		name := fmt.Sprint("n", w.serial)
		w.nodes = append(w.nodes, name)
		w.snapshot.SetNode(w.node(name))
	case k == 1:
		w.snapshot.SetNode(w.node(pick()))
	case k == 2 && len(w.nodes) > 2:
		name := pick()
		w.snapshot.RemoveNode(name)
		w.nodes = slices.DeleteFunc(w.nodes, func(n string) bool { return n == name })
	case k < 8:
		w.serial++
		sh := w.someShape()
		p := &snapshot.Pod{UID: types.UID(fmt.Sprint("u", w.serial)), Namespace: "a", Name: fmt.Sprint("p", w.serial), Shape: sh}
		w.pods[p.UID] = p
		w.snapshot.AddPod(p, pick())
	case k < 10:
		if uids := slices.Sorted(maps.Keys(w.pods)); len(uids) > 0 {
			uid := uids[w.random.IntN(len(uids))]
			w.snapshot.RemovePod(w.pods[uid])
			delete(w.pods, uid)
		}
	case k == 10:
		object, err := convert.Object(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data", Labels: map[string]string{"zone": fmt.Sprint("z", w.random.IntN(3))}}})
		if err != nil {
			w.t.Fatal(err)
		}
		if w.random.IntN(4) == 0 {
			w.snapshot.RemoveObject(object.Key)
		} else {
			w.snapshot.SetObject(object)
		}
	default:
		object, err := convert.Object(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("s", w.random.IntN(3))}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": fmt.Sprint("app", w.random.IntN(2))}}})
		if err != nil {
			w.t.Fatal(err)
		}
		if w.random.IntN(4) == 0 {
			w.snapshot.RemoveObject(object.Key)
		} else {
			w.snapshot.SetObject(object)
		}
	}
}

// answer is all that a decision is made of.
type answer struct {
	fit     []uint32
	alone   []uint32 // where it fits, nominated pods aside
	totals  []int64
	message string
	node    uint32
}

func (w *world) ask(c *Class) answer { return w.askOf(c, w.policy) }

func (w *world) askOf(c *Class, policy *schedulertest.GuestPolicy) answer {
	if err := c.Update(w.t.Context(), policy, w.snapshot); err != nil {
		w.t.Fatal(err)
	}
	a := answer{fit: slices.Clone(c.fit)}
	for n := range w.snapshot.ByIndex {
		if c.Verdicts().FitsAlone(uint32(n)) {
			a.alone = append(a.alone, uint32(n))
		}
	}
	if len(c.fit) == 0 {
		a.message, _ = c.Why(w.snapshot.Count)
		return a
	}
	node, _, err := c.Choose(w.t.Context(), rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		w.t.Fatal(err)
	}
	a.node, a.totals = node, c.sums()
	return a
}

// The cache cannot be seen: after whatever happened, a class that lived through
// it answers as one that asks everything for the first time (decision 5); and
// neither can it be seen whether plugins are asked together or one by one, or
// some together of which a few do not answer.
func FuzzCacheIsInvisible(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		w := newWorld(t, seed, script...)
		if seed%4 > 0 {
			w.policy.Group(w.random.IntN(5), w.random.IntN(6))
		}
		if seed%4 == 3 {
			w.policy.Some = func() bool { return w.random.IntN(6) > 0 }
		}
		old := make([]*Class, 6)
		for i := range old {
			old[i] = w.class(uint32(i+1), w.random.IntN(60))
			w.snapshot.Pending = append(w.snapshot.Pending, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{
				ClassSet: &contractv1.ClassSet{Class: old[i].id + 100, Pod: old[i].shape.Message}}})
		}
		for range 120 {
			for range w.random.IntN(4) {
				w.change()
			}
			if w.random.IntN(30) == 0 {
				w.policy.Moment.Add(1)
			}
			w.flush()
			i := w.random.IntN(len(old))
			got := w.ask(old[i])
			want := w.askOf(&Class{id: old[i].id + 100, shape: old[i].shape}, w.alone)
			if !slices.Equal(got.fit, want.fit) || !slices.Equal(got.alone, want.alone) || !slices.Equal(got.totals, want.totals) || got.message != want.message || got.node != want.node {
				t.Fatalf("seed %d, class %d:\ncached %+v\nasked  %+v", seed, i, got, want)
			}
		}
		if len(w.nodes) > 0 && (seed%4 > 0) != (w.policy.Together > 0) {
			t.Errorf("seed %d: asked together %d times", seed, w.policy.Together)
		}
	})
}

// A class hit asks about the touched node only.
func TestClassHitAsksAboutTouchedNodesOnly(t *testing.T) {
	w := newWorld(t, 1)
	w.policy = schedulertest.NewGuestPolicy(t, w.replica.Full, []sdk.Predicate{schedulertest.SelectNode, schedulertest.FitCPU}, []sdk.Priority{schedulertest.LeastCPU, schedulertest.FewPods})
	for i := range 100 {
		w.snapshot.SetNode(w.node(fmt.Sprint("n", i)))
	}
	c := &Class{id: 1, shape: w.shape(0)}
	w.snapshot.Pending = append(w.snapshot.Pending, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: c.shape.Message}}})
	w.flush()
	w.ask(c)
	if w.policy.Asked != 400 {
		t.Errorf("the first decision asked %d times, want 400", w.policy.Asked)
	}
	w.policy.Asked = 0
	w.ask(c)
	if w.policy.Asked != 0 {
		t.Errorf("nothing changed and it asked %d times", w.policy.Asked)
	}
	w.snapshot.AddPod(&snapshot.Pod{UID: "u", Shape: c.shape}, "n5")
	w.flush()
	w.ask(c)
	if w.policy.Asked != 4 {
		t.Errorf("one node was touched and it asked %d times, want 4", w.policy.Asked)
	}
}

// Plugins of one group are asked in one call, of which the scores are of the
// nodes that pass.
func TestGroupIsAskedTogether(t *testing.T) {
	w := newWorld(t, 1)
	w.policy = schedulertest.NewGuestPolicy(t, w.replica.Full, []sdk.Predicate{schedulertest.SelectNode, schedulertest.FitCPU}, []sdk.Priority{schedulertest.LeastCPU, schedulertest.FewPods})
	w.policy.Group(2, 2)
	for i := range 10 {
		w.snapshot.SetNode(convert.Node(schedulertest.MakeNode(fmt.Sprint("n", i), int64(1000*(i%2)), nil)))
	}
	c := &Class{id: 1, shape: w.shape(1)}
	w.snapshot.Pending = append(w.snapshot.Pending, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: c.shape.Message}}})
	w.flush()
	if got := w.ask(c); len(got.fit) != 5 {
		t.Errorf("fits %v", got.fit)
	}
	if w.policy.Together != 1 || w.policy.Asked != 10+10+5+5 {
		t.Errorf("%d calls with %d answers, want 1 with 30", w.policy.Together, w.policy.Asked)
	}
}

// A log that forgot how things were makes the class ask everything.
func TestChangeLogForgets(t *testing.T) {
	var l snapshot.ChangeLog
	for i := range snapshot.ChangeLogLimit * 3 {
		l.Add(snapshot.Touch{Node: uint32(i)})
	}
	if _, ok := l.Since(5); ok {
		t.Error("it knows what fell out long ago")
	}
	got, ok := l.Since(l.End() - 3)
	if !ok || !slices.Equal(got, []snapshot.Touch{{Node: snapshot.ChangeLogLimit*3 - 3}, {Node: snapshot.ChangeLogLimit*3 - 2}, {Node: snapshot.ChangeLogLimit*3 - 1}}) {
		t.Errorf("the last three are %v, %v", got, ok)
	}
	if len(l.Items) > snapshot.ChangeLogLimit {
		t.Errorf("it holds %d entries", len(l.Items))
	}
}

// SCH-16: an answer out of range counts as the nearer end.
func TestScoresAreClamped(t *testing.T) {
	for _, c := range []struct {
		kind         sdk.Normalize
		raw, largest int64
		want         int64
		most         int64
	}{
		{sdk.NormalizeMax, 2, 2, 10, 0}, {sdk.NormalizeMax, 1, 2, 5, 0}, {sdk.NormalizeMax, 0, 0, 0, 0}, {sdk.NormalizeMax, -5, 2, 0, 0},
		{sdk.NormalizeReverseMax, 2, 2, 0, 0}, {sdk.NormalizeReverseMax, 1, 3, 6, 0}, {sdk.NormalizeReverseMax, 0, 0, 10, 0},
		{sdk.NormalizeReverse, 2, 2, 0, 100}, {sdk.NormalizeReverse, 1, 3, 67, 100}, {sdk.NormalizeReverse, 0, 0, 100, 100},
		{sdk.NormalizeMax, 1 << 62, 1 << 62, 10, 0}, {sdk.NormalizeMax, 1 << 61, 1 << 62, 5, 0}, {sdk.NormalizeMax, 1 << 62, 1 << 62, 100, 100},
	} {
		if got := scale(c.kind, cmp.Or(c.most, 10), c.raw, c.largest); got != c.want {
			t.Errorf("%s %d of %d: %d, want %d", c.kind, c.raw, c.largest, got, c.want)
		}
	}
	if clamp(-1, 10) != 0 || clamp(11, 10) != 10 || clamp(7, 10) != 7 {
		t.Error("clamp")
	}
}

// SCH-17, T-8: the total is the sum of score times weight.
func TestTotal(t *testing.T) {
	fixed := func(name string, scores ...int64) sdk.Priority {
		return sdk.Priority{Name: name, Normalize: sdk.NormalizeNone, Score: func(r *sdk.Request) int64 { return scores[r.Node.Index] }}
	}
	w := newWorld(t, 1)
	w.policy = schedulertest.NewGuestPolicy(t, w.replica.Full, []sdk.Predicate{schedulertest.SelectNode},
		[]sdk.Priority{fixed("A", 5, 1), fixed("B", 8, 9), fixed("C", 10, 3), fixed("D", 0, 10)})
	for i := range w.policy.PriorityInfos {
		w.policy.PriorityInfos[i].Weight = 1
	}
	w.policy.PriorityInfos[3].Weight = 2
	w.snapshot.SetNode(w.node("n0"))
	w.snapshot.SetNode(w.node("n1"))
	c := &Class{id: 1, shape: w.shape(0)}
	w.snapshot.Pending = append(w.snapshot.Pending, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: c.shape.Message}}})
	w.flush()
	got := w.ask(c)
	if !slices.Equal(got.totals, []int64{23, 33}) || got.node != 1 {
		t.Errorf("totals %v, node %d", got.totals, got.node)
	}
}

// SCH-18: each of the tied nodes is chosen about equally often.
func TestTiesAreRandom(t *testing.T) {
	c := &Class{fit: []uint32{3, 5, 9, 11}, fail: make([]int32, 12)}
	random := rand.New(rand.NewPCG(5, 5))
	counts := map[uint32]int{}
	for range 4000 {
		node, _, err := c.Choose(t.Context(), random)
		if err != nil {
			t.Fatal(err)
		}
		counts[node]++
	}
	for _, n := range c.fit {
		if counts[n] < 800 || counts[n] > 1200 {
			t.Errorf("node %d was chosen %d times of 4000", n, counts[n])
		}
	}
}

// sums are the totals, parallel to c.fit.
func (c *Class) sums() []int64 {
	list := make([]int64, len(c.fit))
	for k, n := range c.fit {
		list[k] = c.totals.totals[n]
	}
	return list
}
