package resourceclaim

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/internal/testapi"
)

var (
	podsOf      = corev1.SchemeGroupVersion.WithResource("pods")
	claimsOf    = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	templatesOf = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
)

// newPod is a pod with entries such as "gpu=template:t" and "nic=claim:c".
func newPod(name string, entries ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	for _, text := range entries {
		entry, from, _ := strings.Cut(text, "=")
		kind, of, _ := strings.Cut(from, ":")
		c := corev1.PodResourceClaim{Name: entry}
		switch kind {
		case "template":
			c.ResourceClaimTemplateName = &of
		case "claim":
			c.ResourceClaimName = &of
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, c)
	}
	return p
}

func newTemplate(name string, changes ...func(*resourcev1.ResourceClaimTemplate)) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	t.Spec.Labels, t.Spec.Annotations = map[string]string{"label": "l"}, map[string]string{"note": "n"}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}
	for _, change := range changes {
		change(t)
	}
	return t
}

func newClaim(name string, changes ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	for _, change := range changes {
		change(c)
	}
	return c
}

// allocated is what the scheduler does: finalizer, allocation, reservations.
func allocated(users ...*corev1.Pod) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.Finalizers = []string{resourcev1.Finalizer}
		c.Status.Allocation = &resourcev1.AllocationResult{}
		for _, p := range users {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		}
	}
}

func ownedBy(p *corev1.Pod, entry string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
		if entry != "" {
			c.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: entry}
		}
	}
}

func recorded(entry, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: entry, ResourceClaimName: &name})
	}
}

func with[T any](o T, changes ...func(T)) T {
	for _, change := range changes {
		change(o)
	}
	return o
}

// world is an API of pods and claims in which a keeper works.
type world struct {
	*testapi.API
	k *keeper
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{API: testapi.New(t, fake.NewSimpleClientset(), true, map[string]schema.GroupVersionResource{"Pod": podsOf, "ResourceClaim": claimsOf, "ResourceClaimTemplate": templatesOf})}
	for verb, react := range map[string]k8stesting.ReactionFunc{"create": w.create, "update": w.Update, "patch": w.apply, "delete": w.delete} {
		w.Dies(verb, react)
	}
	for _, o := range objects {
		w.Put(o)
	}
	w.restart()
	return w
}

func (w *world) create(a k8stesting.Action) (bool, runtime.Object, error) {
	claim := a.(k8stesting.CreateAction).GetObject().(*resourcev1.ResourceClaim).DeepCopy()
	claim.Namespace, claim.Name = a.GetNamespace(), fmt.Sprintf("%s%05d", claim.GenerateName, w.Version())
	claim.UID, claim.CreationTimestamp = types.UID("uid-"+claim.Name), metav1.Unix(int64(w.Version()), 0)
	w.Put(claim)
	return true, claim, nil
}

// apply is a server-side apply by the one manager that there is: what is not in it is gone.
func (w *world) apply(a k8stesting.Action) (bool, runtime.Object, error) {
	p := a.(k8stesting.PatchAction)
	if p.GetPatchType() != types.ApplyPatchType || p.GetSubresource() != "status" {
		w.Errorf("patch %s of %s", p.GetPatchType(), p.GetSubresource())
	}
	var applied corev1.Pod
	if err := json.Unmarshal(p.GetPatch(), &applied); err != nil {
		return true, nil, err
	}
	pod := w.pod(p.GetName())
	if pod == nil || pod.UID != applied.UID {
		return true, nil, apierrors.NewConflict(podsOf.GroupResource(), p.GetName(), errors.New("another UID"))
	}
	pod.Status.ResourceClaimStatuses = applied.Status.ResourceClaimStatuses
	w.Put(pod)
	return true, pod, nil
}

func (w *world) delete(a k8stesting.Action) (bool, runtime.Object, error) {
	d := a.(k8stesting.DeleteActionImpl)
	claim := w.claim(d.Name)
	if claim == nil {
		return true, nil, apierrors.NewNotFound(claimsOf.GroupResource(), d.Name)
	}
	if d.DeleteOptions.Preconditions == nil || *d.DeleteOptions.Preconditions.UID != claim.UID {
		return true, nil, apierrors.NewConflict(claimsOf.GroupResource(), d.Name, errors.New("another UID"))
	}
	w.end(claim)
	return true, claim, nil
}

// end deletes a claim as users and the garbage collector do.
func (w *world) end(claim *resourcev1.ResourceClaim) {
	w.Helper()
	if len(claim.Finalizers) == 0 {
		w.Remove(claim)
		return
	}
	claim = claim.DeepCopy()
	claim.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
	w.Put(claim)
}

func (w *world) pod(name string) *corev1.Pod {
	return testapi.Get[*corev1.Pod](w.API, podsOf, "ns", name)
}

func (w *world) claim(name string) *resourcev1.ResourceClaim {
	return testapi.Get[*resourcev1.ResourceClaim](w.API, claimsOf, "ns", name)
}

func (w *world) claims() []*resourcev1.ResourceClaim {
	return testapi.List[*resourcev1.ResourceClaim](w.API, claimsOf)
}

// of is the claim that was made for an entry of a pod.
func (w *world) of(pod, entry string) *resourcev1.ResourceClaim {
	p := w.pod(pod)
	for _, c := range w.claims() {
		if _, uid := owningPod(c); p != nil && uid == p.UID && c.Annotations[resourcev1.PodResourceClaimAnnotation] == entry {
			return c.DeepCopy()
		}
	}
	return nil
}

// restart is a new process of the controller.
func (w *world) restart() {
	w.Helper()
	shared := informers.NewSharedInformerFactory(w.Client, 0)
	k, err := build(w.Client, shared, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(k.Close)
	w.Begin(map[schema.GroupVersionResource]cache.Indexer{
		podsOf: shared.Core().V1().Pods().Informer().GetIndexer(), claimsOf: shared.Resource().V1().ResourceClaims().Informer().GetIndexer(),
		templatesOf: shared.Resource().V1().ResourceClaimTemplates().Informer().GetIndexer(),
	})
	k.Recorder, w.k = w.Events, k
}

func (w *world) do(keys ...key) error {
	return w.Inside(func() error {
		for _, key := range keys {
			if err := w.k.sync(w.Context(), key); err != nil {
				return err
			}
		}
		return nil
	})
}

// pass works on each pod that handlers would enqueue, and on each claim.
func (w *world) pass() error {
	var keys []key
	for _, obj := range w.Cache(podsOf).List() {
		if p := obj.(*corev1.Pod); w.k.needsWork(p) {
			keys = append(keys, podKey(p))
		}
	}
	for _, obj := range w.Cache(claimsOf).List() {
		c := obj.(*resourcev1.ResourceClaim)
		keys = append(keys, claimKey(c.Namespace, c.Name))
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return w.do(keys...)
}

// collect is the garbage collector: claims of pods that are gone go too.
func (w *world) collect() (did bool) {
	for _, c := range w.claims() {
		name, uid := owningPod(c)
		if p := w.pod(name); uid != "" && (p == nil || p.UID != uid) && c.DeletionTimestamp == nil {
			w.end(c)
			did = true
		}
	}
	return did
}

// settle goes on until nothing happens any more.
func (w *world) settle() {
	w.Helper()
	for i := range 100 {
		before := w.Writes
		w.Refresh()
		err := w.pass()
		if errors.Is(err, testapi.ErrDead) {
			w.restart()
			continue
		}
		if did := w.collect(); !did && w.Writes == before && i > 1 {
			return
		}
	}
	w.Fatalf("no end:\n%s", w.picture())
}

// picture is the state that matters. Claims that were made are named by pod and entry, and the finalizer of an
// unallocated claim does not matter: the scheduler writes it first.
func (w *world) picture() string {
	w.Helper()
	names := map[string]string{}
	for _, c := range w.claims() {
		names[c.Name] = c.Name
		if _, uid := owningPod(c); uid != "" {
			names[c.Name] = fmt.Sprintf("<%s of %s>", c.Annotations[resourcev1.PodResourceClaimAnnotation], uid)
		}
	}
	var lines []string
	for _, p := range testapi.List[*corev1.Pod](w.API, podsOf) {
		line := fmt.Sprintf("pod %s %s:", p.Name, p.UID)
		for _, s := range p.Status.ResourceClaimStatuses {
			line += fmt.Sprintf(" %s=%s", s.Name, names[ptr.Deref(s.ResourceClaimName, "none")])
		}
		lines = append(lines, line)
	}
	for _, c := range w.claims() {
		line := fmt.Sprintf("claim %s: allocated %t, deleted %t, for", names[c.Name], c.Status.Allocation != nil, c.DeletionTimestamp != nil)
		for _, r := range c.Status.ReservedFor {
			line += " " + string(r.UID)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}
