package statefulset

import (
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func image(v string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = v }
}

func scale(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n }
}

// life is what a set goes through in the test of crashes.
func life(w *world) {
	w.settle()
	w.change(scale(4))
	w.settle()
	w.change(image("v2"))
	w.settle()
	if p := w.pod("web-1"); p != nil {
		p.Status.Phase = corev1.PodFailed
		w.Put(p)
	}
	w.settle()
	w.change(image("v1")) // back to the first revision
	w.settle()
	w.change(func(s *appsv1.StatefulSet) {
		scale(2)(s)
		image("v3")(s)
		s.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](1)
	})
	w.settle()
}

// A controller that dies before any of its writes, and is started anew, ends
// where one ends that lives.
func TestCrashAtEachWrite(t *testing.T) {
	for name, changes := range map[string][]func(*appsv1.StatefulSet){
		"ordered":  {withClaims, retain(appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)},
		"parallel": {withClaims, parallel},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newSet(3, changes...))
			life(w)
			want, writes := w.picture(), w.Writes
			if writes < 30 {
				t.Fatalf("%d writes only:\n%s", writes, want)
			}
			for n := 1; n <= writes; n++ {
				w := newWorld(t, newSet(3, changes...))
				w.DieAt = n
				life(w)
				if got := w.picture(); got != want {
					t.Fatalf("dead at write %d of %d:\n%s\nwant\n%s", n, writes, got, want)
				}
			}
		})
	}
}

// Whatever happens to a set and its controller in whatever order: no pod of an
// ordered set is made before its predecessors are ready (world.mayCreate), and in
// the end there is one pod of each ordinal.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 17))
			changes := []func(*appsv1.StatefulSet){withClaims}
			if seed%2 == 1 {
				changes = append(changes, parallel)
			}
			if seed%3 == 1 {
				changes = append(changes, func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2} })
			}
			w := newWorld(t, newSet(3, changes...))
			for range 60 {
				switch pods := w.pods(); r.IntN(9) {
				case 0:
					w.change(scale(int32(r.IntN(6))))
				case 1:
					w.change(image(fmt.Sprint("v", r.IntN(4))))
				case 2:
					w.change(func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(int32(r.IntN(4))) })
				case 3:
					w.DieAt = w.Writes + 1 + r.IntN(4)
				case 4:
					w.restart()
				case 5, 6:
					if len(pods) > 0 {
						p := &pods[r.IntN(len(pods))]
						p.Status.Phase = []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded, corev1.PodPending}[r.IntN(3)]
						p.Status.Conditions = nil
						w.Put(p)
					}
				}
				w.Refresh()
				_ = w.sync() // it may have died
				if r.IntN(2) == 0 {
					w.nodes()
				}
			}
			w.restart()
			w.settle()
			set := w.set()
			start, end := bounds(set)
			if got := len(w.pods()); got != end-start {
				t.Fatalf("%d pods of %d:\n%s", got, end-start, w.picture())
			}
			for n := start; n < end; n++ {
				p := w.pod(podName(set, n))
				if p == nil || !runningAndReady(p) {
					t.Fatalf("ordinal %d:\n%s", n, w.picture())
				}
				if n-start >= int(*set.Spec.UpdateStrategy.RollingUpdate.Partition) && revisionOf(p) != set.Status.UpdateRevision {
					t.Errorf("%s has revision %s:\n%s", p.Name, revisionOf(p), w.picture())
				}
			}
		})
	}
}
