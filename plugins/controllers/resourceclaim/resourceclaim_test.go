package resourceclaim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/controller"
)

// schedule is what the scheduler does with a pod and its claims.
func (w *world) schedule(pod string, claims ...*resourcev1.ResourceClaim) {
	w.Helper()
	p := w.pod(pod)
	for _, c := range claims {
		if c == nil {
			w.Fatalf("pod %s lacks a claim:\n%s", pod, w.picture())
		}
		w.Put(with(c, allocated(p)))
	}
	p.Spec.NodeName = "n"
	w.Put(p)
	w.settle()
}

func (w *world) ended(pod string, phase corev1.PodPhase) {
	w.Helper()
	p := w.pod(pod)
	p.Status.Phase = phase
	w.Put(p)
	w.settle()
}

// life is what pods and claims go through in the test of crashes.
func life(w *world) {
	w.settle()
	w.schedule("a", w.of("a", "gpu"), w.of("a", "nic"))
	w.schedule("b", w.claim("shared"))
	w.Put(with(newPod("c", "s=claim:shared"), func(p *corev1.Pod) { p.Spec.NodeName = "n" })) // without the scheduler
	w.settle()
	w.ended("a", corev1.PodSucceeded)
	w.Remove(w.pod("b"))
	w.settle()
	w.Put(with(newPod("d", "gpu=template:later"), func(p *corev1.Pod) { p.UID = "uid-d1" }))
	w.settle() // the template is not there
	w.Put(newTemplate("later"))
	w.settle()
	w.Put(with(newPod("d", "gpu=template:later", "nic=template:t"), func(p *corev1.Pod) { p.UID = "uid-d2" })) // another of the name
	w.settle()
	w.Remove(newTemplate("t"))
	w.end(w.of("d", "gpu")) // by mistake
	w.settle()
	w.ended("c", corev1.PodFailed)
	w.end(w.claim("kept")) // allocated, and never used
	w.settle()
	w.Put(with(newClaim("extended", ownedBy(w.pod("e"), ""), allocated(w.pod("e"))), func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	}))
	w.Put(with(w.pod("e"), func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
	}))
	w.settle()
	w.ended("e", corev1.PodSucceeded)
}

// A controller that dies before any of its writes, and is started anew, ends where one ends that lives.
func TestCrashAtEachWrite(t *testing.T) {
	begin := func() *world {
		return newWorld(t, newTemplate("t"), newPod("a", "gpu=template:t", "nic=template:t"), newPod("b", "s=claim:shared"), newPod("e"),
			newClaim("shared"), newClaim("kept", allocated()))
	}
	w := begin()
	life(w)
	want, writes := w.picture(), w.Writes
	const end = `claim <gpu of uid-d2>: allocated false, deleted false, for
claim <nic of uid-d2>: allocated false, deleted false, for
claim shared: allocated false, deleted false, for
pod a uid-a: gpu= nic=
pod c uid-c:
pod d uid-d2: gpu=<gpu of uid-d2> nic=<nic of uid-d2>
pod e uid-e:`
	if want != end {
		t.Fatalf("after %d writes:\n%s\nwant\n%s", writes, want, end)
	}
	if writes < 20 {
		t.Fatalf("%d writes only", writes)
	}
	for n := 1; n <= writes; n++ {
		w := begin()
		w.DieAt = n
		life(w)
		if got := w.picture(); got != want {
			t.Fatalf("dead at write %d of %d:\n%s\nwant\n%s", n, writes, got, want)
		}
	}
}

// What is made of a template, and what is told where nothing can be made.
func TestCreation(t *testing.T) {
	waiting := newPod("p", "gpu=template:t")
	other := with(newPod("p"), func(p *corev1.Pod) { p.UID = "uid-before" })
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		others []runtime.Object
		made   int
		event  string
		names  string // of the status, entry by entry
	}{
		"new":                     {pod: waiting, others: []runtime.Object{newTemplate("t")}, made: 1, names: "gpu"},
		"no template":             {pod: waiting, event: `Warning FailedResourceClaimCreation PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found`},
		"two of one template":     {pod: newPod("p", "a=template:t", "b=template:t"), others: []runtime.Object{newTemplate("t")}, made: 2, names: "a b"},
		"one template is missing": {pod: newPod("p", "a=template:t", "b=template:u"), others: []runtime.Object{newTemplate("t")}, made: 1, event: `PodResourceClaim b: resource claim template "u"`},
		"a user's claim":          {pod: newPod("p", "gpu=claim:mine"), others: []runtime.Object{newTemplate("t")}},
		"of a later API":          {pod: newPod("p", "gpu="), event: `PodResourceClaim gpu: checking for claim before creating it: pod "ns/p", spec.resourceClaim "gpu": none of the supported fields are set`},
		"not needed":              {pod: with(newPod("p", "gpu=template:t"), func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu"}} }), others: []runtime.Object{newTemplate("t")}, names: "gpu"},
		"made before a failure":   {pod: waiting, others: []runtime.Object{newTemplate("t"), newClaim("orphan", ownedBy(waiting, "gpu"))}, names: "gpu"},
		"made for another entry":  {pod: waiting, others: []runtime.Object{newTemplate("t"), newClaim("orphan", ownedBy(waiting, "nic"))}, made: 1, names: "gpu"},
		"a user's, in its name":   {pod: waiting, others: []runtime.Object{newTemplate("t"), newClaim("orphan", ownedBy(waiting, ""))}, made: 1, names: "gpu"},
		"of an earlier pod":       {pod: waiting, others: []runtime.Object{newTemplate("t"), newClaim("orphan", ownedBy(other, "gpu"))}, made: 1, names: "gpu"},
		"is being deleted":        {pod: waiting, others: []runtime.Object{newTemplate("t"), newClaim("orphan", ownedBy(waiting, "gpu"), allocated(), func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) })}, made: 1, names: "gpu"},
		"recorded and there":      {pod: with(newPod("p", "gpu=template:t"), recorded("gpu", "c")), others: []runtime.Object{newTemplate("t"), newClaim("c", ownedBy(waiting, "gpu"))}, names: "gpu"},
		"recorded and lost":       {pod: with(newPod("p", "gpu=template:t"), recorded("gpu", "c")), others: []runtime.Object{newTemplate("t")}, made: 1, names: "gpu"},
		"one of two is lost":      {pod: with(newPod("p", "a=template:t", "b=template:t"), recorded("a", "c"), recorded("b", "lost")), others: []runtime.Object{newTemplate("t"), newClaim("c", ownedBy(waiting, "a"))}, made: 1, names: "a b"},
		"recorded, of another":    {pod: with(newPod("p", "gpu=template:t"), recorded("gpu", "c")), others: []runtime.Object{newTemplate("t"), newClaim("c", ownedBy(other, "gpu"))}, made: 1, names: "gpu"},
		"the pod is going":        {pod: with(newPod("p", "gpu=template:t"), func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }), others: []runtime.Object{newTemplate("t")}},
		"the pod has ended":       {pod: with(newPod("p", "gpu=template:t"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), others: []runtime.Object{newTemplate("t")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tt.others, tt.pod)...)
			before := len(w.claims())
			err := w.do(podKey(tt.pod))
			told := w.Told()
			if (err != nil) != (tt.event != "") || !strings.Contains(told, tt.event) || tt.event == "" && told != "" {
				t.Errorf("%v, told %q", err, told)
			}
			if n := len(w.claims()) - before; n != tt.made {
				t.Errorf("%d claims were made:\n%s", n, w.picture())
			}
			var names []string
			for _, s := range w.pod("p").Status.ResourceClaimStatuses {
				names = append(names, s.Name)
				if s.ResourceClaimName == nil {
					continue
				}
				c := w.claim(*s.ResourceClaimName)
				if c == nil || c.DeletionTimestamp != nil {
					t.Errorf("the status names %s:\n%s", *s.ResourceClaimName, w.picture())
				} else if _, uid := owningPod(c); uid != tt.pod.UID {
					t.Errorf("the pod has a claim of %s", uid)
				}
			}
			if got := strings.Join(names, " "); got != tt.names {
				t.Errorf("the status has %q, want %q", got, tt.names)
			}
			// A second time nothing is left to do.
			w.Refresh()
			if writes := w.Writes; err == nil && w.do(podKey(tt.pod)) == nil && w.Writes != writes {
				t.Errorf("%d writes more", w.Writes-writes)
			}
		})
	}
}

// A claim has all that its template says, and the pod as its owner. The template stays as it is.
func TestClaimOfTemplate(t *testing.T) {
	template := newTemplate("t")
	w := newWorld(t, template, newPod("p", "gpu=template:t"))
	if err := w.do(podKey(newPod("p"))); err != nil {
		t.Fatal(err)
	}
	c := w.of("p", "gpu")
	if c == nil || !strings.HasPrefix(c.Name, "p-gpu-") || c.Labels["label"] != "l" || c.Annotations["note"] != "n" || len(c.Annotations) != 2 ||
		c.Spec.Devices.Requests[0].Exactly.DeviceClassName != "gpu" || len(c.OwnerReferences) != 1 || c.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("%+v", c)
	}
	have, err := w.k.templates.ResourceClaimTemplates("ns").Get("t")
	if err != nil || len(have.Spec.Annotations) != 1 {
		t.Errorf("the cache's template: %+v, %v", have, err)
	}
}

// Names of any pod and entry begin names that the API takes.
func TestGenerateName(t *testing.T) {
	long := strings.Repeat("p", 253)
	for _, tt := range []struct{ pod, entry, want string }{
		{"p", "gpu", "p-gpu-"},
		{long[:50], "entry", long[:50] + "-entry-"},
		{long[:51], "entry", long[:50] + "-entr"},
		{long, "gpu", long[:55] + "-"},
		{"a." + long[:60], strings.Repeat("e", 63), "a." + long[:25] + "-" + strings.Repeat("e", 28)},
		{long[:26] + "." + long[:35], strings.Repeat("e", 63), long[:26] + "-" + strings.Repeat("e", 28)},
	} {
		got := generateName(tt.pod, tt.entry)
		if got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.pod, tt.entry, got, tt.want)
		}
		if faults := validation.NameIsDNSSubdomain(got+"abcde", false); len(got) > longestBase || len(faults) > 0 {
			t.Errorf("%s: %d characters, %v", got, len(got), faults)
		}
	}
}

// A reservation stays as long as its pod may run; allocation and finalizer go with the last one.
func TestRelease(t *testing.T) {
	p, q := newPod("p", "s=claim:c"), newPod("q", "s=claim:c")
	on := func(p *corev1.Pod) { p.Spec.NodeName = "n" }
	gone := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	for name, tt := range map[string]struct {
		pods   []runtime.Object
		claim  *resourcev1.ResourceClaim
		late   bool // the cache does not have the pods yet
		users  int
		holds  bool // allocation and finalizer
		nobody bool // the claim is gone
	}{
		"runs":                    {pods: []runtime.Object{with(p.DeepCopy(), on)}, claim: newClaim("c", allocated(p)), users: 1, holds: true},
		"waits":                   {pods: []runtime.Object{p.DeepCopy()}, claim: newClaim("c", allocated(p)), users: 1, holds: true},
		"stops":                   {pods: []runtime.Object{with(p.DeepCopy(), on, gone)}, claim: newClaim("c", allocated(p)), users: 1, holds: true},
		"deleted while it waited": {pods: []runtime.Object{with(p.DeepCopy(), gone)}, claim: newClaim("c", allocated(p))},
		"succeeded":               {pods: []runtime.Object{with(p.DeepCopy(), on, phase(corev1.PodSucceeded))}, claim: newClaim("c", allocated(p))},
		"failed":                  {pods: []runtime.Object{with(p.DeepCopy(), on, phase(corev1.PodFailed))}, claim: newClaim("c", allocated(p))},
		"gone":                    {claim: newClaim("c", allocated(p))},
		"another UID":             {pods: []runtime.Object{with(p.DeepCopy(), on, func(p *corev1.Pod) { p.UID = "later" })}, claim: newClaim("c", allocated(p))},
		"not in the cache yet":    {pods: []runtime.Object{with(p.DeepCopy(), on)}, late: true, claim: newClaim("c", allocated(p)), users: 1, holds: true},
		"one of two":              {pods: []runtime.Object{with(p.DeepCopy(), on)}, claim: newClaim("c", allocated(p, q)), users: 1, holds: true},
		"another kind of user": {claim: with(newClaim("c", allocated()), func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "example.com", Resource: "things", Name: "x", UID: "x"}}
		}), users: 1, holds: true},
		"allocated and not used yet": {claim: newClaim("c", allocated()), holds: true},
		"deleted and not used":       {claim: newClaim("c", allocated(), func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }), nobody: true},
		"deleted and used":           {pods: []runtime.Object{with(p.DeepCopy(), on)}, claim: newClaim("c", allocated(p), func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }), users: 1, holds: true},
		"made for it, which ended":   {pods: []runtime.Object{with(p.DeepCopy(), on, phase(corev1.PodSucceeded))}, claim: newClaim("c", ownedBy(p, "s"), allocated(p)), nobody: true},
		"made for an earlier one":    {pods: []runtime.Object{with(p.DeepCopy(), on)}, claim: newClaim("c", ownedBy(with(p.DeepCopy(), func(p *corev1.Pod) { p.UID = "before" }), "s")), nobody: true},
		"made for it, which waits":   {pods: []runtime.Object{p.DeepCopy()}, claim: newClaim("c", ownedBy(p, "s"))},
		"made for it, which is new":  {pods: []runtime.Object{p.DeepCopy()}, late: true, claim: newClaim("c", ownedBy(p, "s"))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tt.pods, tt.claim)...)
			if tt.late {
				if err := w.Cache(podsOf).Replace(nil, ""); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.do(claimKey("ns", "c")); err != nil {
				t.Fatal(err)
			}
			c := w.claim("c")
			if tt.nobody != (c == nil) {
				t.Fatalf("there: %t\n%s", c != nil, w.picture())
			}
			if c != nil && (len(c.Status.ReservedFor) != tt.users || (c.Status.Allocation != nil) != tt.holds || (len(c.Finalizers) > 0) != tt.holds) {
				t.Errorf("finalizers %v\n%s", c.Finalizers, w.picture())
			}
		})
	}
}

// A change in the meantime is never overwritten.
func TestRace(t *testing.T) {
	p := newPod("p", "s=claim:c")
	w := newWorld(t, newClaim("c", allocated(p)))
	w.Put(with(w.claim("c"), allocated(newPod("q")))) // the scheduler is faster
	if err := w.do(claimKey("ns", "c")); err == nil {
		t.Error("the scheduler's reservation was overwritten")
	}
	if c := w.claim("c"); len(c.Status.ReservedFor) != 2 || c.Status.Allocation == nil {
		t.Errorf("%+v", c.Status)
	}
}

// A claim that was made while the cache is behind is found, and one that was deleted before the cache saw it is not.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, newTemplate("t"), newPod("p", "gpu=template:t"))
	for range 3 { // neither the claim nor the status comes
		if err := w.do(podKey(newPod("p"))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.claims()); n != 1 {
		t.Fatalf("%d claims:\n%s", n, w.picture())
	}
	w.Remove(w.of("p", "gpu"))
	if err := w.Cache(podsOf).Replace([]any{w.pod("p")}, ""); err != nil { // the status comes, and the claim never will
		t.Fatal(err)
	}
	if !w.k.needsWork(w.pod("p")) {
		t.Fatal("nothing is to do for a pod whose claim is lost")
	}
	if err := w.do(podKey(newPod("p"))); err != nil {
		t.Fatal(err)
	}
	if c := w.of("p", "gpu"); c == nil || *w.pod("p").Status.ResourceClaimStatuses[0].ResourceClaimName != c.Name {
		t.Errorf("\n%s", w.picture())
	}
}

// A claim that somebody puts in a pod's name later than the pod's own takes no place of it.
func TestForgedOwner(t *testing.T) {
	p := newPod("p", "gpu=template:t")
	objects := []runtime.Object{newTemplate("t"), p, newClaim("own", ownedBy(p, "gpu"), func(c *resourcev1.ResourceClaim) { c.CreationTimestamp = metav1.Unix(10, 0) })}
	for i := range 100 {
		objects = append(objects, newClaim(fmt.Sprintf("a-forged-%d", i), ownedBy(p, "gpu"), func(c *resourcev1.ResourceClaim) { c.CreationTimestamp = metav1.Unix(20, 0) }))
	}
	w := newWorld(t, objects...)
	if err := w.do(podKey(p)); err != nil {
		t.Fatal(err)
	}
	if s := w.pod("p").Status.ResourceClaimStatuses; len(s) != 1 || *s[0].ResourceClaimName != "own" {
		t.Errorf("%+v", s)
	}
	// In another namespace a UID says nothing.
	w.Put(with(newClaim("own", ownedBy(p, "gpu")), func(c *resourcev1.ResourceClaim) { c.Namespace = "elsewhere" }))
	w.Refresh()
	if c, err := w.k.find(p, "gpu", "own"); err != nil || c == nil || c.Namespace != "ns" {
		t.Errorf("%+v, %v", c, err)
	}
}

// What handlers enqueue: a pod without claims is no work, one that ended gives its claims back.
func TestHandlers(t *testing.T) {
	p := with(newPod("p", "a=claim:c", "b=template:t"), recorded("b", "made"))
	others := []runtime.Object{newClaim("c"), newClaim("made", ownedBy(p, "b"))}
	ended := with(p.DeepCopy(), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	extended := with(newPod("x"), func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"}
	})
	for name, tt := range map[string]struct {
		cached []runtime.Object
		do     func(k *keeper)
		want   int
	}{
		"plain":                 {do: func(k *keeper) { k.podChanged(nil, newPod("plain")); k.podChanged(newPod("plain"), nil) }},
		"has all":               {cached: others, do: func(k *keeper) { k.podChanged(nil, p) }},
		"lacks one":             {cached: others[:1], do: func(k *keeper) { k.podChanged(nil, p) }, want: 1},
		"not recorded":          {cached: others, do: func(k *keeper) { k.podChanged(nil, newPod("p", "b=template:t")) }, want: 1},
		"user's claim missing":  {do: func(k *keeper) { k.podChanged(nil, newPod("p", "a=claim:c")) }},
		"ended":                 {cached: others, do: func(k *keeper) { k.podChanged(p, ended) }, want: 2},
		"gone":                  {cached: others, do: func(k *keeper) { k.podChanged(p, nil) }, want: 2},
		"replaced":              {cached: others, do: func(k *keeper) { k.podChanged(p, with(newPod("p"), func(p *corev1.Pod) { p.UID = "later" })) }, want: 2},
		"extended":              {do: func(k *keeper) { k.podChanged(nil, extended) }, want: 1},
		"a claim":               {cached: append(others, p), do: func(k *keeper) { k.claimChanged(nil, newClaim("c")) }, want: 1},
		"a claim of a pod went": {cached: []runtime.Object{newClaim("c"), p}, do: func(k *keeper) { k.claimChanged(newClaim("made"), nil) }, want: 1},
		"a claim of none went":  {cached: []runtime.Object{p}, do: func(k *keeper) { k.claimChanged(newClaim("z"), nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.cached...)
			tt.do(w.k)
			if n := w.k.Len(); n != tt.want {
				t.Errorf("%d keys, want %d", n, tt.want)
			}
		})
	}
}

// 10,000 claims in the namespace of a pod, and as many pods of one claim, cost a write each at most, and none at rest.
func TestManyClaims(t *testing.T) {
	const many = 10000
	client := &fake.Clientset{} // that keeps nothing
	writes := 0
	client.AddReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetVerb() != "get" {
			writes++
		}
		return true, newClaim("x"), nil
	})
	shared := informers.NewSharedInformerFactory(client, 0)
	k, err := build(client, shared, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	store := shared.Resource().V1().ResourceClaims().Informer().GetStore()
	for i := range many {
		c := newClaim(fmt.Sprint("c-", i))
		if i%2 == 0 { // reserved for pods that were seen going
			p := newPod(fmt.Sprint("p-", i), "s=claim:"+c.Name)
			allocated(p)(c)
			c.Finalizers = nil
			k.gone.Add(p.UID, nil)
		}
		if err := store.Add(c); err != nil {
			t.Fatal(err)
		}
		if err := k.sync(t.Context(), claimKey("ns", c.Name)); err != nil {
			t.Fatal(err)
		}
	}
	if writes != many/2 {
		t.Errorf("%d writes for %d reservations", writes, many/2)
	}
	if n := k.gone.Len(); n > rememberedPods {
		t.Errorf("%d pods are remembered", n)
	}
	pods := shared.Core().V1().Pods().Informer().GetStore()
	for i := range many {
		if err := pods.Add(newPod(fmt.Sprint("p-", i), "s=claim:c-1")); err != nil {
			t.Fatal(err)
		}
	}
	k.claimChanged(nil, newClaim("c-1"))
	if n := k.Len(); n != 1 {
		t.Errorf("a change of a claim of %d pods that need nothing enqueues %d keys", many, n)
	}
}

// Metrics have kube-controller-manager's names; a claim is counted by allocation, access and source.
func TestMetrics(t *testing.T) {
	admin := newTemplate("admin", func(t *resourcev1.ResourceClaimTemplate) {
		t.Spec.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	})
	w := newWorld(t, admin, newTemplate("t"), newPod("p", "a=template:admin", "b=template:t"), newClaim("mine", allocated()),
		newClaim("x", func(c *resourcev1.ResourceClaim) {
			c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		}))
	before := testutil.ToFloat64(creations.WithLabelValues("success", "true"))
	w.settle()
	if n := testutil.ToFloat64(creations.WithLabelValues("success", "true")) - before; n != 1 {
		t.Errorf("%g claims with access for administrators were counted", n)
	}
	w.Refresh()
	var c claimCounter
	end := c.of(w.k.claims)
	registry := prometheus.NewRegistry()
	registry.MustRegister(&c)
	const want = `# HELP resourceclaim_controller_resource_claims Claims by allocation, access for administrators, and source: resource_claim_template, extended_resource, or empty if a user made it.
# TYPE resourceclaim_controller_resource_claims gauge
resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source="extended_resource"} 1
resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source="resource_claim_template"} 1
resourceclaim_controller_resource_claims{admin_access="false",allocated="true",source=""} 1
resourceclaim_controller_resource_claims{admin_access="true",allocated="false",source="resource_claim_template"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	end()
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series of a controller that has ended, %v", n, err)
	}
}

// The controller works on informers, and leaves nothing behind.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, newTemplate("t"), newPod("p", "gpu=template:t"))
	w.k.Close()
	shared := informers.NewSharedInformerFactory(w.Client, 0)
	runner, err := New(&controller.Context{Client: w.Client, Informers: shared, Logger: slog.New(slog.DiscardHandler), Config: []byte(`{"concurrentSyncs": 2}`)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop, done := make(chan struct{}), make(chan error, 1)
	shared.Start(stop)
	go func() { done <- runner.Run(ctx) }()
	within(t, "no claim is recorded", func() bool {
		p, err := w.Client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
		return err == nil && len(p.Status.ResourceClaimStatuses) == 1
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(stop)
	shared.Shutdown()
}
