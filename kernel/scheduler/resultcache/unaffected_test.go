package resultcache

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

// Nobody is asked about a node for a pod that is aloof: not the plugin that says so,
// which hears of what it missed when another pod comes (decision 5).
func TestAloofPodsAreNotAskedAbout(t *testing.T) {
	w := newWorld(t, 1)
	w.policy = schedulertest.NewGuestPolicy(t, w.replica.Full, []sdk.Predicate{schedulertest.Feuding}, []sdk.Priority{schedulertest.Feared})
	for i := range 30 {
		w.snapshot.SetNode(convert.Node(schedulertest.MakeNode(fmt.Sprint("n", i), 10000, map[string]string{"zone": fmt.Sprint("z", i%3)})))
	}
	meek, other, hostile := w.class(1, 0), w.class(2, 2), w.class(3, 1)
	w.flush()
	for _, c := range []*Class{meek, other, hostile} {
		w.ask(c)
	}
	w.ask(meek)
	add := func(by *Class, node string) {
		w.serial++
		w.snapshot.AddPod(&snapshot.Pod{UID: types.UID(fmt.Sprint("u", w.serial)), Shape: by.shape}, node)
		w.flush()
	}
	for _, step := range []struct {
		name string
		by   *Class
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
		fresh := schedulertest.NewGuestPolicy(t, w.replica.Full, []sdk.Predicate{schedulertest.Feuding}, []sdk.Priority{schedulertest.Feared})
		if err := fresh.Apply(t.Context(), w.replica.Full()); err != nil {
			t.Fatal(err)
		}
		want := w.askOf(&Class{id: 1, shape: meek.shape}, fresh)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("a pod %s: %+v, want %+v", step.name, got, want)
		}
	}
}

// class makes the class of a kind of shape and tells plugins of it: pods of the shape
// are its pods from then on.
func (w *world) class(id uint32, kind int) *Class {
	c := &Class{id: id, shape: w.shape(kind)}
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
