package scheduler

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func mean(pod *sdk.Pod) bool { return pod.Labels["mean"] != "" || pod.Labels["exclusive"] != "" }

func peaceful(pod *sdk.Pod) bool { return !mean(pod) }

// feud is what a rule between pods knows: by zone, how many pods there are and how
// many are mean. Pods that are not mean, and classes that are not, are aloof.
type feud struct {
	all, mean map[string]int64
	moved     []uint32
}

func prepareFeud(c *sdk.Cluster, _ *sdk.Pod) any {
	f := &feud{all: map[string]int64{}, mean: map[string]int64{}}
	for n := range c.Nodes {
		for _, p := range n.Pods {
			f.count(n, p, 1)
		}
	}
	return f
}

func (f *feud) count(n *sdk.Node, p *sdk.Pod, by int64) {
	f.all[n.Labels["zone"]] += by
	if mean(p) {
		f.mean[n.Labels["zone"]] += by
	}
}

func followFeud(c *sdk.Cluster, pod *sdk.Pod, state any, changes []sdk.Change) any {
	f := state.(*feud)
	zones := map[string]bool{}
	for i := range changes {
		change := &changes[i]
		switch change.Kind {
		case sdk.PodAdded:
			f.count(change.Node, change.Pod, 1)
		case sdk.PodRemoved:
			f.count(change.Node, change.Pod, -1)
		}
		if change.Pod != nil && (mean(change.Pod) || mean(pod)) {
			zones[change.Node.Labels["zone"]] = true
		}
	}
	f.moved = f.moved[:0]
	for n := range c.Nodes {
		if zones[n.Labels["zone"]] {
			f.moved = append(f.moved, n.Index)
		}
	}
	return f
}

func movedFeud(state any) ([]uint32, bool) { return state.(*feud).moved, false }

// feuding lets mean pods into no zone with many pods, and others into none with two
// that are mean; feared is the number of those, or of all.
var (
	feuding = sdk.Predicate{
		Name: "Feuding", Scope: sdk.ScopeCluster, Prepare: prepareFeud, Follow: followFeud, Moved: movedFeud, Aloof: peaceful,
		Filter: func(r *sdk.Request) sdk.Verdict {
			f, zone := r.State.(*feud), r.Node.Labels["zone"]
			if mean(r.Pod) && f.all[zone] > 20 || !mean(r.Pod) && f.mean[zone] > 1 {
				return sdk.Unfit("node(s) had a zone with others")
			}
			return sdk.Fits()
		},
	}
	feared = sdk.Priority{
		Name: "Feared", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizeMinMax, Prepare: prepareFeud, Follow: followFeud, Moved: movedFeud, Aloof: peaceful,
		Score: func(r *sdk.Request) int64 {
			f, zone := r.State.(*feud), r.Node.Labels["zone"]
			if mean(r.Pod) {
				return f.all[zone]
			}
			return -f.mean[zone]
		},
	}
)

// Nobody is asked about a node for a pod that is aloof: not the plugin that says so,
// which hears of what it missed when another pod comes (decision 5).
func TestAloofPodsAreNotAskedAbout(t *testing.T) {
	w := newWorld(t, 1)
	w.policy = schedulertest.NewGuestPolicy(t, w.replica.Full, []sdk.Predicate{feuding}, []sdk.Priority{feared})
	for i := range 30 {
		w.snapshot.SetNode(convert.Node(schedulertest.MakeNode(fmt.Sprint("n", i), 10000, map[string]string{"zone": fmt.Sprint("z", i%3)})))
	}
	meek, other, hostile := w.class(1, 0), w.class(2, 2), w.class(3, 1)
	w.flush()
	for _, c := range []*class{meek, other, hostile} {
		w.ask(c)
	}
	w.ask(meek)
	add := func(by *class, node string) {
		w.serial++
		w.snapshot.AddPod(&snapshot.Pod{UID: types.UID(fmt.Sprint("u", w.serial)), Shape: by.shape}, node)
		w.flush()
	}
	for _, step := range []struct {
		name string
		by   *class
		node string
		want int // answers about meek
	}{
		{"of another class, first of all", hostile, "n0", 2 * 30}, // nobody said before what moved
		{"of its own class", meek, "n0", 0},
		{"of another class", other, "n3", 0},
		{"of one that is not aloof", hostile, "n1", 2 * 10}, // its zone
		{"of its own class again", meek, "n6", 0},
		{"of one that is not aloof again", hostile, "n1", 10}, // its zone is unfit
	} {
		add(step.by, step.node)
		w.policy.Asked = 0
		got := w.ask(meek)
		if w.policy.Asked != step.want {
			t.Errorf("a pod %s: %d answers were asked for, want %d", step.name, w.policy.Asked, step.want)
		}
		fresh := schedulertest.NewGuestPolicy(t, w.replica.Full, []sdk.Predicate{feuding}, []sdk.Priority{feared})
		if err := fresh.Apply(t.Context(), w.replica.Full()); err != nil {
			t.Fatal(err)
		}
		want := w.askOf(&class{id: 1, shape: meek.shape}, fresh)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("a pod %s: %+v, want %+v", step.name, got, want)
		}
	}
}

// class makes the class of a kind of shape and tells plugins of it: pods of the shape
// are its pods from then on.
func (w *world) class(id uint32, kind int) *class {
	c := &class{id: id, shape: w.shape(kind)}
	c.shape.Class = c
	w.classes = append(w.classes, c)
	w.snapshot.Pending = append(w.snapshot.Pending, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{
		ClassSet: &contractv1.ClassSet{Class: c.id, Pod: c.shape.Message}}})
	return c
}

// someShape is that of a pod that comes: often of a class that is there.
func (w *world) someShape() *snapshot.Shape {
	if len(w.classes) > 0 && w.random.IntN(3) > 0 {
		return w.classes[w.random.IntN(len(w.classes))].shape
	}
	return w.shape(w.random.IntN(60))
}
