package devicetainteviction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/internal/testapi"
)

var began = testapi.Began

func taint(effect resourcev1.DeviceTaintEffect, after ...time.Duration) resourcev1.DeviceTaint {
	t := resourcev1.DeviceTaint{Key: "broken", Value: "yes", Effect: effect, TimeAdded: &metav1.Time{Time: began}}
	if len(after) > 0 {
		t.TimeAdded.Time = began.Add(after[0])
	}
	return t
}

const noExecute = resourcev1.DeviceTaintEffectNoExecute

// newSlice has the devices d0 to d9, of which the first has taints.
func newSlice(name string, generation int64, taints ...resourcev1.DeviceTaint) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	s.Spec.Driver, s.Spec.Pool = "gpu.example.com", resourcev1.ResourcePool{Name: "pool/1", Generation: generation, ResourceSliceCount: 1}
	for i := range 10 {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("d", i)})
	}
	s.Spec.Devices[0].Taints = taints
	return s
}

func tolerates(seconds ...int64) resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists, Effect: noExecute}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

// newClaim is allocated with a device, and reserved for the pod of its name.
func newClaim(name, device string, tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-c-" + name)}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "one", Driver: "gpu.example.com", Pool: "pool/1", Device: device, Tolerations: tolerations},
	}}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID("uid-" + name)}}
	return c
}

// newPod uses the claim of its name, and more.
func newPod(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{NodeName: "n"}}
	for _, c := range append([]string{name}, claims...) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c, ResourceClaimName: ptr.To(c)})
	}
	return p
}

func with[T any](o T, changes ...func(T)) T {
	for _, change := range changes {
		change(o)
	}
	return o
}

// world is the controller in a bubble.
type world struct{ *testapi.Bubble }

func start(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	return &world{testapi.Start(t, New, objects...)}
}

// events are the pods and the messages, in order.
func (w *world) events() string {
	w.Helper()
	var list []string
	for _, e := range w.Evictions("DeviceTaintManagerEviction", "device-taint-eviction-controller") {
		if e.InvolvedObject.UID == "" {
			w.Errorf("event %+v", e)
		}
		list = append(list, e.InvolvedObject.Name+": "+e.Message)
	}
	return strings.Join(list, "; ")
}

func (w *world) slice(s *resourcev1.ResourceSlice) {
	w.Helper()
	slices := w.Client.ResourceV1().ResourceSlices()
	_, err := slices.Update(context.Background(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = slices.Create(context.Background(), s, metav1.CreateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) claim(c *resourcev1.ResourceClaim) {
	w.Helper()
	if _, err := w.Client.ResourceV1().ResourceClaims("ns").Update(context.Background(), c, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// Who goes at once, who later, and who stays.
func TestTaints(t *testing.T) {
	for name, tt := range map[string]struct {
		slices []*resourcev1.ResourceSlice
		claim  *resourcev1.ResourceClaim
		pod    *corev1.Pod
		goes   time.Duration // after the start; below 0: never
	}{
		"at once":                     {goes: 0},
		"other device":                {claim: newClaim("p", "d1"), goes: -1},
		"NoSchedule":                  {slices: []*resourcev1.ResourceSlice{newSlice("s", 1, taint(resourcev1.DeviceTaintEffectNoSchedule))}, goes: -1},
		"no effect":                   {slices: []*resourcev1.ResourceSlice{newSlice("s", 1, taint(resourcev1.DeviceTaintEffectNone))}, goes: -1},
		"tolerated":                   {claim: newClaim("p", "d0", tolerates()), goes: -1},
		"for a while":                 {claim: newClaim("p", "d0", tolerates(60)), goes: time.Minute},
		"the shortest":                {claim: newClaim("p", "d0", tolerates(300), tolerates(60)), goes: time.Minute},
		"one without end":             {claim: newClaim("p", "d0", tolerates(60), tolerates()), goes: -1},
		"no seconds":                  {claim: newClaim("p", "d0", tolerates(-5)), goes: 0},
		"for ages":                    {claim: newClaim("p", "d0", tolerates(math.MaxInt64)), goes: -1},
		"another key":                 {claim: newClaim("p", "d0", resourcev1.DeviceToleration{Key: "x", Operator: resourcev1.DeviceTolerationOpExists, Effect: noExecute}), goes: 0},
		"of any effect":               {claim: newClaim("p", "d0", resourcev1.DeviceToleration{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}), goes: 0}, // as upstream
		"added later":                 {slices: []*resourcev1.ResourceSlice{newSlice("s", 1, taint(noExecute, time.Hour))}, goes: time.Hour},
		"the earlier of 2":            {slices: []*resourcev1.ResourceSlice{newSlice("s", 1, taint(noExecute, time.Hour), taint(noExecute, time.Minute))}, goes: time.Minute},
		"without a time":              {slices: []*resourcev1.ResourceSlice{with(newSlice("s", 1, taint(noExecute)), func(s *resourcev1.ResourceSlice) { s.Spec.Devices[0].Taints[0].TimeAdded = nil })}, goes: 0},
		"an old slice":                {slices: []*resourcev1.ResourceSlice{newSlice("s", 1, taint(noExecute)), newSlice("t", 2)}, goes: -1},
		"a new slice":                 {slices: []*resourcev1.ResourceSlice{newSlice("s", 1), newSlice("t", 2, taint(noExecute))}, goes: 0},
		"another pool":                {slices: []*resourcev1.ResourceSlice{with(newSlice("s", 1, taint(noExecute)), func(s *resourcev1.ResourceSlice) { s.Spec.Pool.Name = "pool" })}, goes: -1},
		"not bound":                   {pod: with(newPod("p"), func(p *corev1.Pod) { p.Spec.NodeName = "" }), goes: -1},
		"not allocated":               {claim: with(newClaim("p", "d0"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }), goes: -1},
		"not reserved":                {claim: with(newClaim("p", "d0"), func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }), goes: -1},
		"reserved for an earlier one": {claim: with(newClaim("p", "d0"), func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "before" }), goes: -1},
		"made for another": {pod: with(newPod("p"), func(p *corev1.Pod) {
			p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: ptr.To("t")}
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("p")}}
		}), goes: -1},
		"going": {pod: with(newPod("p"), func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: began}, []string{"x/y"}
		}), goes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.slices == nil {
					tt.slices = []*resourcev1.ResourceSlice{newSlice("s", 1, taint(noExecute))}
				}
				if tt.claim == nil {
					tt.claim = newClaim("p", "d0")
				}
				if tt.pod == nil {
					tt.pod = newPod("p")
				}
				objects := []runtime.Object{tt.claim, tt.pod}
				for _, s := range tt.slices {
					objects = append(objects, s)
				}
				w := start(t, objects...)
				switch {
				case tt.goes < 0:
					w.After(24 * time.Hour).Want("p")
					if told := w.events(); told != "" || len(w.Marked()) > 0 {
						t.Errorf("told %q, marked %v", told, w.Marked())
					}
					return
				case tt.goes > 0:
					w.After(time.Until(began.Add(tt.goes)) - time.Second).Want("p")
					w.After(time.Second)
				}
				w.Want()
				if told := w.events(); told != "p: Marking for deletion" {
					t.Errorf("told %q", told)
				}
				marked := w.Marked()
				if len(marked) != 1 || !strings.Contains(marked[0], `"type":"DisruptionTarget","status":"True"`) || !strings.Contains(marked[0], `"uid":"uid-p"`) ||
					!strings.Contains(marked[0], `"reason":"DeletionByDeviceTaintManager","message":"Device Taint manager: deleting due to NoExecute taint"`) {
					t.Errorf("marked %v", marked)
				}
			})
		})
	}
}

// What changes a plan: taints that come and go, claims that are given back, pods that are replaced.
func TestChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		claim  *resourcev1.ResourceClaim
		before *resourcev1.ResourceSlice
		do     func(w *world)
		stays  bool
		told   string
	}{
		"a taint comes": {before: newSlice("s", 1), do: func(w *world) { w.slice(newSlice("s", 1, taint(noExecute))) }, told: "p: Marking for deletion"},
		"a taint goes":  {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) { w.slice(newSlice("s", 1)) }, stays: true, told: "p: Cancelling deletion"},
		"and comes again": {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) {
			w.slice(newSlice("s", 1))
			w.slice(newSlice("s", 1, taint(noExecute)))
		}, told: "p: Cancelling deletion; p: Marking for deletion"},
		"its slice goes": {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) {
			if err := w.Client.ResourceV1().ResourceSlices().Delete(context.Background(), "s", metav1.DeleteOptions{}); err != nil {
				w.Fatal(err)
			}
		}, stays: true, told: "p: Cancelling deletion"},
		"a new generation":  {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) { w.slice(newSlice("t", 2)) }, stays: true, told: "p: Cancelling deletion"},
		"a generation back": {before: newSlice("s", 5), do: func(w *world) { w.slice(newSlice("t", 4, taint(noExecute))) }, stays: true},
		"a sooner taint": {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) {
			w.slice(newSlice("s", 1, taint(noExecute), resourcev1.DeviceTaint{Key: "fire", Effect: noExecute, TimeAdded: &metav1.Time{Time: began}}))
		}, told: "p: Marking for deletion"},
		"it is given back": {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) {
			w.claim(with(newClaim("p", "d0", tolerates(60)), func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }))
		}, stays: true, told: "p: Cancelling deletion"},
		"it is deallocated": {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) {
			w.claim(with(newClaim("p", "d0"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }))
		}, stays: true, told: "p: Cancelling deletion"},
		"it is reserved late": {claim: with(newClaim("p", "d0"), func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }), do: func(w *world) { w.claim(newClaim("p", "d0")) }, told: "p: Marking for deletion"},
		"a label changes only": {claim: newClaim("p", "d0", tolerates(60)), do: func(w *world) {
			w.slice(with(newSlice("s", 1, taint(noExecute)), func(s *resourcev1.ResourceSlice) { s.Labels = map[string]string{"a": "b"} }))
		}, told: "p: Marking for deletion"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.before == nil {
					tt.before = newSlice("s", 1, taint(noExecute))
				}
				if tt.claim == nil {
					tt.claim = newClaim("p", "d0")
				}
				w := start(t, tt.claim, newPod("p"), tt.before)
				w.Want("p")
				tt.do(w)
				w.After(2 * time.Minute)
				if tt.stays {
					w.Want("p")
				} else {
					w.Want()
				}
				if told := w.events(); told != tt.told {
					t.Errorf("told %q, want %q", told, tt.told)
				}
			})
		})
	}
}

// Another pod of the name is spared, by the plan and by the writes.
func TestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, newClaim("p", "d0", tolerates(60)), newPod("p"), newSlice("s", 1, taint(noExecute)))
		pods := w.Client.CoreV1().Pods("ns")
		if err := pods.Delete(t.Context(), "p", *metav1.NewPreconditionDeleteOptions("uid-p")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := pods.Create(t.Context(), with(newPod("p"), func(p *corev1.Pod) { p.UID = "later" }), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.After(time.Hour).Want("p")
		if told := w.events(); told != "" {
			t.Errorf("told %q", told)
		}
	})
}

// Writes that fail are tried again, and told of once.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, newClaim("p", "d0"), newPod("p"), newSlice("s", 1))
		w.Refuse(5)
		w.slice(newSlice("s", 1, taint(noExecute)))
		w.After(time.Minute).Want()
		if told := w.events(); told != "p: Marking for deletion" || w.Refusing() != 0 {
			t.Errorf("told %q, %d more would be refused", told, w.Refusing())
		}
	})
}

// The 10,000 pods of a pool that breaks go once each, in two writes; those of other devices cost nothing.
func TestManyPods(t *testing.T) {
	const many = 10000
	synctest.Test(t, func(t *testing.T) {
		client := &fake.Clientset{} // that keeps nothing
		var mu sync.Mutex
		writes, gone := map[string]int{}, map[string]bool{}
		client.AddReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			writes[a.GetVerb()]++
			switch g := a.(type) {
			case k8stesting.GetActionImpl:
				if gone[g.Name] {
					return true, nil, apierrors.NewNotFound(corev1.Resource("pods"), g.Name)
				}
				return true, newPod(g.Name), nil
			case k8stesting.DeleteActionImpl:
				gone[g.Name] = true
			}
			return true, &corev1.Pod{}, nil
		})
		shared := informers.NewSharedInformerFactory(client, 0)
		e, err := build(client, shared, standardWorkers, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		e.Recorder = record.NewFakeRecorder(2 * many)
		pods, claims := shared.Core().V1().Pods().Informer().GetStore(), shared.Resource().V1().ResourceClaims().Informer().GetStore()
		for i := range many {
			name := fmt.Sprint("p", i)
			if err := errors.Join(pods.Add(newPod(name)), claims.Add(newClaim(name, "d0")), pods.Add(newPod("q"+name)), claims.Add(newClaim("q"+name, "d1"))); err != nil {
				t.Fatal(err)
			}
		}
		broken := newSlice("s", 1, taint(noExecute))
		if err := shared.Resource().V1().ResourceSlices().Informer().GetStore().Add(broken); err != nil {
			t.Fatal(err)
		}
		// Slices without such taints, and pods without claims, are no work.
		e.sliceChanged(newSlice("s", 1), newSlice("s", 1, taint(resourcev1.DeviceTaintEffectNoSchedule)))
		e.podChanged(nil, &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}})
		e.podChanged(newPod("p1"), with(newPod("p1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }))
		e.claimChanged(newClaim("p1", "d0"), newClaim("p1", "d0"))
		if n := e.Len(); n != 0 {
			t.Errorf("%d keys of nothing", n)
		}
		e.sliceChanged(newSlice("s", 1), broken)
		if n := e.Len(); n != 1 {
			t.Errorf("%d keys for one pool", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); e.Loop.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-done
		if writes["delete"] != many || writes["patch"] != many || writes["get"] > 2*many || len(gone) != many || len(e.plans) != 0 {
			t.Errorf("%v, %d plans are left", writes, len(e.plans))
		}
	})
}
