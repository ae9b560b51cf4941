package daemonset

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// Which nodes get a pod, and on which it may stay.
func TestPlacement(t *testing.T) {
	ownTolerated := corev1.Toleration{Key: "own", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	tests := []struct {
		name      string
		node      *corev1.Node
		change    func(*corev1.PodSpec)
		run, stay bool
	}{
		{name: "plain", node: node("a"), run: true, stay: true},
		{name: "NoSchedule", node: node("a", noSchedule), stay: true},
		{name: "NoExecute", node: node("a", noExecute)},
		{name: "tolerated", node: node("a", noSchedule), change: func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{ownTolerated} }, run: true, stay: true},
		{name: "PreferNoSchedule", node: node("a", corev1.Taint{Key: "own", Effect: corev1.TaintEffectPreferNoSchedule}), run: true, stay: true},
		{name: "cordoned", node: node("a", corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}), run: true, stay: true},
		{name: "not ready", node: node("a", corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}), run: true, stay: true},
		{name: "under pressure", node: node("a", corev1.Taint{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule}), run: true, stay: true},
		{name: "without network", node: node("a", corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}), stay: true},
		{name: "without network, in the host's", node: node("a", corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}),
			change: func(s *corev1.PodSpec) { s.HostNetwork = true }, run: true, stay: true},
		{name: "selected", node: node("a"), change: func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kubernetes.io/hostname": "a"} }, run: true, stay: true},
		{name: "not selected", node: node("a"), change: func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kubernetes.io/hostname": "b"} }},
		{name: "another name", node: node("a"), change: func(s *corev1.PodSpec) { s.NodeName = "b" }},
		{name: "affinity to another", node: node("a"), change: func(s *corev1.PodSpec) { s.Affinity = newPod(set(nil), "", "b").Spec.Affinity }},
		{name: "affinity to it", node: node("a"), change: func(s *corev1.PodSpec) { s.Affinity = newPod(set(nil), "", "a").Spec.Affinity }, run: true, stay: true},
		{name: "affinity that is none", node: node("a"), change: func(s *corev1.PodSpec) {
			s.Affinity = newPod(set(nil), "", "a").Spec.Affinity
			s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Operator = "Never"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ds := set(func(ds *appsv1.DaemonSet) {
				if tt.change != nil {
					tt.change(&ds.Spec.Template.Spec)
				}
			})
			before := ds.DeepCopy()
			if run, stay := placementOf(ds).on(tt.node); run != tt.run || stay != tt.stay {
				t.Errorf("runs %v, stays %v; want %v, %v", run, stay, tt.run, tt.stay)
			}
			if fmt.Sprint(before) != fmt.Sprint(ds) {
				t.Error("the cached set was changed")
			}
		})
	}
}

// A pod has the template, the hash, the tolerations, and the name of its node.
func TestPod(t *testing.T) {
	w := newWorld(t, set(func(ds *appsv1.DaemonSet) {
		ds.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "7"}
		ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)}}
	}), node("a"))
	w.must(w.sync())
	pods, revs := w.pods(), w.revisions()
	if len(pods) != 1 || len(revs) != 1 {
		t.Fatalf("%d pods, %d revisions", len(pods), len(revs))
	}
	p := pods[0]
	if p.Spec.NodeName != "" || target(p) != "a" || !strings.HasPrefix(p.Name, "d-") {
		t.Errorf("pod %s is bound to %q, meant for %q", p.Name, p.Spec.NodeName, target(p))
	}
	want := map[string]string{"app": "d", "pod-template-generation": "7", "controller-revision-hash": revs[0].Labels[hashLabel]}
	if !maps.Equal(p.Labels, want) || revs[0].Name != "d-"+want["controller-revision-hash"] {
		t.Errorf("labels %v, want %v; revision %s", p.Labels, want, revs[0].Name)
	}
	if len(p.Spec.Tolerations) != 6 || p.Spec.Tolerations[0].TolerationSeconds != nil {
		t.Errorf("tolerations %v", p.Spec.Tolerations)
	}
	if got := string(revs[0].Data.Raw); got != `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"image":"one","name":"c","resources":{}}],"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}]}}}}` {
		t.Errorf("revision %s", got)
	}
	if s := w.sets()[0].Status; s.DesiredNumberScheduled != 1 || s.ObservedGeneration != 1 || s.NumberUnavailable != 1 {
		t.Errorf("status %+v", s)
	}
	if want := []string{"Normal SuccessfulCreate Created pod: " + p.Name}; !slices.Equal(w.events, want) {
		t.Errorf("events %q", w.events)
	}
}

// One sync on nodes with pods in all states.
func TestManage(t *testing.T) {
	pod := func(name, node string, change func(*corev1.Pod)) *corev1.Pod {
		p := newPod(set(nil), templateHash(&set(nil).Spec.Template, nil), node)
		p.Name, p.GenerateName, p.Namespace, p.UID = name, "", "default", types.UID(name)
		ready(p)
		if change != nil {
			change(p)
		}
		return p
	}
	phase := func(to corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = to } }
	later := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }
	tests := []struct {
		name   string
		nodes  []*corev1.Node
		pods   []*corev1.Pod
		want   string
		events []string
		status [7]int32 // desired, current, misscheduled, ready, updated, available, unavailable
	}{
		{name: "all there", nodes: []*corev1.Node{node("a"), node("b")}, pods: []*corev1.Pod{pod("x", "a", nil), pod("y", "b", nil)}, want: "a:one b:one", status: [7]int32{2, 2, 0, 2, 2, 2, 0}},
		{name: "one too many", nodes: []*corev1.Node{node("a")}, pods: []*corev1.Pod{pod("x", "a", later), pod("y", "a", nil)}, want: "a:one", events: []string{"Normal SuccessfulDelete Deleted pod: x"}, status: [7]int32{1, 1, 0, 1, 1, 1, 0}},
		{name: "a node that lets it stay", nodes: []*corev1.Node{node("a", noSchedule)}, pods: []*corev1.Pod{pod("x", "a", nil)}, want: "a:one", status: [7]int32{0, 0, 1, 0, 0, 0, 0}},
		{name: "a node that does not", nodes: []*corev1.Node{node("a", noExecute)}, pods: []*corev1.Pod{pod("x", "a", nil)}, want: "", events: []string{"Normal SuccessfulDelete Deleted pod: x"}, status: [7]int32{0, 0, 1, 0, 0, 0, 0}},
		{name: "failed", nodes: []*corev1.Node{node("a")}, pods: []*corev1.Pod{pod("x", "a", phase(corev1.PodFailed))}, want: "",
			events: []string{"Warning FailedDaemonPod Found failed daemon pod default/x on node a, will try to kill it", "Normal SuccessfulDelete Deleted pod: x"}, status: [7]int32{1, 1, 0, 1, 1, 1, 0}},
		{name: "succeeded", nodes: []*corev1.Node{node("a")}, pods: []*corev1.Pod{pod("x", "a", phase(corev1.PodSucceeded))}, want: "",
			events: []string{"Normal SucceededDaemonPod Found succeeded daemon pod default/x on node a, will try to delete it", "Normal SuccessfulDelete Deleted pod: x"}, status: [7]int32{1, 1, 0, 1, 1, 1, 0}},
		{name: "not bound, and its node is gone", pods: []*corev1.Pod{pod("x", "a", func(p *corev1.Pod) { p.Spec.NodeName = "" })}, want: "", events: []string{"Normal SuccessfulDelete Deleted pod: x"}},
		{name: "bound, and its node is gone", pods: []*corev1.Pod{pod("x", "a", nil)}, want: "a:one"},
		{name: "an orphan", nodes: []*corev1.Node{node("a")}, pods: []*corev1.Pod{pod("x", "a", func(p *corev1.Pod) { p.OwnerReferences = nil })}, want: "a:one"},
		{name: "another's", nodes: []*corev1.Node{node("a")}, pods: []*corev1.Pod{pod("x", "a", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" })}, want: "a:one a:one",
			status: [7]int32{1, 0, 0, 0, 0, 0, 1}},
		{name: "no longer selected", nodes: []*corev1.Node{node("a")}, pods: []*corev1.Pod{pod("x", "a", func(p *corev1.Pod) { p.Labels = nil })}, want: "a:one a:one",
			status: [7]int32{1, 0, 0, 0, 0, 0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []runtime.Object{set(nil)}
			for _, n := range tt.nodes {
				objects = append(objects, n)
			}
			for _, p := range tt.pods {
				objects = append(objects, p)
			}
			w := newWorld(t, objects...)
			w.must(w.sync())
			if got := w.placed(); got != tt.want {
				t.Errorf("pods %q, want %q", got, tt.want)
			}
			if len(tt.events) > 0 && !slices.Equal(w.events, tt.events) {
				t.Errorf("events %q, want %q", w.events, tt.events)
			}
			s := w.sets()[0].Status
			if got := counts(&s); tt.status != [7]int32{} && got != tt.status {
				t.Errorf("status %v, want %v", got, tt.status)
			}
		})
	}
}

// A pod that fails again is deleted after a second, then two: a node that refuses
// pods does not keep the controller busy.
func TestFailedPodBackoff(t *testing.T) {
	w := newWorld(t, set(nil), node("a"))
	k, clock := w.controller(), clocktesting.NewFakeClock(w.now)
	k.backoff = flowcontrol.NewFakeBackOff(firstBackoff, lastBackoff, clock)
	deletions := 0
	for range 600 { // ten minutes
		w.fill(k)
		k.expect.forget("default/d")
		w.must(w.syncBy(k))
		for _, p := range w.pods() {
			p.Spec.NodeName, p.Status.Phase = "a", corev1.PodFailed
			w.update("pods", p)
		}
		w.now = w.now.Add(time.Second)
		clock.SetTime(w.now)
	}
	for _, e := range w.events {
		if strings.Contains(e, "FailedDaemonPod") {
			deletions++
		}
	}
	if deletions < 5 || deletions > 12 {
		t.Errorf("%d deletions in ten minutes", deletions)
	}
}

// A template that changes reaches all nodes, with no more than the strategy allows
// unavailable or doubled at any time, and goes back.
func TestRollout(t *testing.T) {
	for name, change := range map[string]func(*appsv1.DaemonSet){"deletion": nil, "surge": surging(2)} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{set(change)}
			for i := range 6 {
				objects = append(objects, node(fmt.Sprint("n", i)))
			}
			w := newWorld(t, objects...)
			w.settle()
			for n, image := range []string{"two", "three", "one"} {
				w.template(image)
				for step := 0; ; step++ {
					w.must(w.sync())
					up := 0
					for _, p := range w.pods() {
						if readyCondition(p) != nil {
							up++
						}
					}
					if total := len(w.pods()); change == nil && (up < 5 || total > 6) || change != nil && (up < 6 || total > 8) {
						t.Fatalf("%d pods, %d ready", total, up)
					}
					w.kubelets()
					if s := w.sets()[0].Status; s.UpdatedNumberScheduled == 6 && s.NumberAvailable == 6 && s.ObservedGeneration == int64(n+2) && len(w.pods()) == 6 {
						break
					}
					if step > 50 {
						t.Fatalf("not rolled out: %s", w.placed())
					}
				}
			}
			if w.settle(); w.placed() != "n0:one n1:one n2:one n3:one n4:one n5:one" {
				t.Errorf("pods %s", w.placed())
			}
			revisions := map[int64]bool{}
			for _, r := range w.revisions() {
				revisions[r.Revision] = true
			}
			if !maps.Equal(revisions, map[int64]bool{2: true, 3: true, 4: true}) {
				t.Errorf("revisions %v: the first template is the newest now", revisions)
			}
		})
	}
}

// OnDelete replaces no pod by itself; a pod that is deleted comes anew.
func TestOnDelete(t *testing.T) {
	w := newWorld(t, set(func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}), node("a"), node("b"))
	w.settle()
	w.template("two")
	if w.settle(); w.placed() != "a:one b:one" || w.sets()[0].Status.UpdatedNumberScheduled != 0 {
		t.Errorf("pods %s", w.placed())
	}
	for _, p := range w.pods() {
		if target(p) == "b" {
			w.must(w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), p.Namespace, p.Name))
		}
	}
	if w.settle(); w.placed() != "a:one b:two" {
		t.Errorf("pods %s", w.placed())
	}
}

// Old revisions go beyond the limit, but none that a pod still has.
func TestHistory(t *testing.T) {
	w := newWorld(t, set(func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = ptr.To[int32](1) }), node("a"))
	for i := range 5 {
		w.template(fmt.Sprint("image", i))
		w.settle()
	}
	if n := len(w.revisions()); n != 2 {
		t.Errorf("%d revisions, want the current and one", n)
	}
}

// Two templates of one hash: the second gets another by the collision count.
func TestHashCollision(t *testing.T) {
	taken := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "d-" + templateHash(&set(nil).Spec.Template, nil), Namespace: "default"}, Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)},
	}
	w := newWorld(t, set(nil), node("a"), taken)
	if err := w.sync(); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the first sync says %v", err)
	}
	w.settle()
	if c := w.sets()[0].Status.CollisionCount; ptr.Deref(c, 0) != 1 || w.placed() != "a:one" {
		t.Errorf("collisions %v, pods %s", c, w.placed())
	}
}

// Revisions of one template are one, and the pods of both have its hash.
func TestDedup(t *testing.T) {
	w := newWorld(t, set(nil), node("a"))
	w.settle()
	double := w.revisions()[0].DeepCopy()
	double.Name, double.UID, double.Revision = "d-double", "double", 2
	double.Labels[hashLabel] = "double"
	w.must(w.client.Tracker().Add(double))
	w.settle()
	if revs, pods := w.revisions(), w.pods(); len(revs) != 1 || revs[0].Name != "d-double" || len(pods) != 1 || pods[0].Labels[hashLabel] != "double" {
		t.Errorf("revisions %v, pods %v", revs, pods)
	}
}

// A cache that does not show yet what was done makes no second pod on a node.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, set(nil), node("a"))
	k := w.controller()
	w.must(w.syncBy(k))
	w.must(w.syncBy(k)) // the cache has neither the pod nor the status
	if w.placed() != "a:one" {
		t.Fatalf("pods %q", w.placed())
	}
	w.fill(k)
	k.podChanged(nil, w.pods()[0])
	if !k.expect.satisfied("default/d") {
		t.Error("the pod was seen, and is still expected")
	}
	k.written.sets = cache.NewStore(cache.MetaNamespaceKeyFunc)
	k.written.pods = &versioned{Store: k.written.sets, version: "10"}
	k.written.pod("default/d", "set", "11")
	if err := w.syncBy(k); err == nil || !strings.Contains(err.Error(), "read version: 10 is not as new as written version: 11 for group resource pods") {
		t.Errorf("a cache that is behind says %v", err)
	}
	k.written.pods = &versioned{Store: k.written.sets, version: "11"}
	w.must(w.syncBy(k))
}

type versioned struct {
	cache.Store
	version string
}

func (v *versioned) LastStoreSyncResourceVersion() string { return v.version }

// A quota that refuses in the midst is asked no more than it takes to see that.
func TestQuota(t *testing.T) {
	objects := []runtime.Object{set(nil)}
	for i := range 300 {
		objects = append(objects, node(fmt.Sprint("n", i)))
	}
	w := newWorld(t, objects...)
	creations := 0
	w.refuse = func(a k8stesting.Action) error {
		if !a.Matches("create", "pods") {
			return nil
		}
		if creations++; creations > 10 {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
		}
		return nil
	}
	if err := w.sync(); !apierrors.IsForbidden(err) && !strings.Contains(fmt.Sprint(err), "exceeded quota") {
		t.Errorf("error %v", err)
	}
	if creations != 15 || len(w.pods()) != 10 { // 1, 2, 4, 8
		t.Errorf("%d creations, %d pods", creations, len(w.pods()))
	}
	w.refuse = nil
	if w.settle(); len(w.pods()) != 300 {
		t.Errorf("%d pods in the end", len(w.pods()))
	}
}

// script is what happens to the model: nodes come and go, flap and are tainted,
// and the template changes. It gives the objects in the end.
func script(t *testing.T, seed uint64, change func(*appsv1.DaemonSet), kill int, refuse bool) (*world, string) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, set(change), node("n0"), node("n1"), node("n2"))
	coins := rand.New(rand.NewPCG(seed, 1))
	w.kill = kill
	w.refuse = func(a k8stesting.Action) error {
		if refuse && coins.IntN(2) == 0 {
			return apierrors.NewInternalError(errors.New("a webhook is down"))
		}
		if a.Matches("create", "pods") { // what there is then on its node
			p, on := a.(k8stesting.CreateAction).GetObject().(*corev1.Pod), 1
			for _, other := range w.pods() {
				if target(other) == target(p) {
					on++
				}
			}
			if on > 1 && change == nil || on > 2 {
				t.Errorf("%d pods on node %s", on, target(p))
			}
		}
		return nil
	}
	w.settle()
	for range 6 {
		name := fmt.Sprint("n", dice.IntN(5))
		there := slices.IndexFunc(w.nodes(), func(n *corev1.Node) bool { return n.Name == name })
		switch act := dice.IntN(5); {
		case act == 0:
			w.template(fmt.Sprint("image", dice.IntN(3)))
		case there < 0:
			w.must(w.client.Tracker().Add(node(name)))
		case act == 1:
			w.update("nodes", node(name, noSchedule))
		case act == 2:
			w.update("nodes", node(name, noExecute))
		default:
			w.update("nodes", node(name))
		}
		w.settle()
	}
	s := w.sets()[0].Status
	var revs []string
	for _, r := range w.revisions() {
		revs = append(revs, fmt.Sprint(r.Name, " ", r.Revision))
	}
	slices.Sort(revs)
	return w, fmt.Sprint(w.placed(), " ", revs, " ", counts(&s), " ", s.ObservedGeneration)
}

// A controller that is killed after any of its writes, and started again, ends
// where one that lives on ends, and never puts two pods on a node beyond surge.
func TestModel(t *testing.T) {
	for seed := range uint64(2) {
		for name, change := range map[string]func(*appsv1.DaemonSet){"deletion": nil, "surge": surging(1)} {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				w, want := script(t, seed, change, 0, false)
				if w.writes < 10 {
					t.Fatalf("%d writes alone", w.writes)
				}
				for kill := 1; kill <= w.writes; kill++ {
					if _, got := script(t, seed, change, kill, false); got != want {
						t.Errorf("killed after write %d of %d:\n%s\nwant\n%s", kill, w.writes, got, want)
					}
				}
				if _, got := script(t, seed, change, 0, true); got != want {
					t.Errorf("half of the writes refused:\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}
