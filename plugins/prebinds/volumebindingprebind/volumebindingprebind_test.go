package volumebindingprebind

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/plugins/reserves/volumebindingreserve"
	"pintle.dev/pintle/sdk"
)

const selected = "volume.kubernetes.io/selected-node"

func objects() []runtime.Object {
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "uid-" + "x"}}
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "host", Operator: "In", Values: []string{"n"}}}}}}}
	return []runtime.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}, claim("static"), claim("made"), pv}
}

// bind runs PreBind for a pod on node n of which plan is known; act is the rest of
// the cluster: it is called when the plugin has written something, with the object.
func bind(t *testing.T, plan *volumebindingreserve.Plan, timeout time.Duration, act func(ctx context.Context, c kubernetes.Interface, o runtime.Object), all ...runtime.Object) (sdk.Status, kubernetes.Interface) {
	t.Helper()
	client := fake.NewClientset(all...)
	client.PrependReactor("update", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		o := a.(ktesting.UpdateAction).GetObject().DeepCopyObject()
		if act != nil {
			go act(t.Context(), client, o)
		}
		return false, nil, nil
	})
	b := &binder{ledger: volumebindingreserve.NewLedger(), connect: func(string) (kubernetes.Interface, error) { return client, nil }}
	b.timeout.Store(int64(timeout))
	b.ledger.Keep("u", plan)
	return b.preBind(&sdk.Binding{
		Context: t.Context(), NodeName: "n", Node: &sdk.Node{Name: "n", Labels: map[string]string{"host": "n"}},
		Pod: &sdk.QueuedPod{Pod: &sdk.Pod{Namespace: "a", Name: "p", UID: "u"}},
	}), client
}

// binds completes whatever is promised or asked for, as the controller of
// persistent volumes and provisioners do. It writes around the reactor.
func binds(ctx context.Context, c kubernetes.Interface, o runtime.Object) {
	name := "static"
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		if o.Spec.ClaimRef == nil {
			return
		}
	case *corev1.PersistentVolumeClaim:
		name = o.Name
		if o.Annotations[selected] == "" || o.Spec.VolumeName != "" {
			return
		}
	}
	patch := `{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"pv"}}`
	for ctx.Err() == nil { // the write may not be there yet
		claim, err := c.CoreV1().PersistentVolumeClaims("a").Get(ctx, name, metav1.GetOptions{})
		if err == nil && (name == "static" || claim.Annotations[selected] != "") {
			_, err = c.CoreV1().PersistentVolumeClaims("a").Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		}
		if err == nil && (name == "static" || claim.Annotations[selected] != "") {
			return
		}
	}
}

var (
	static = &volumebindingreserve.Plan{Node: "n", Bindings: []volumebindingreserve.Binding{{Claim: volumebindingreserve.Claim{Namespace: "a", Name: "static", UID: "uid-x"}, Volume: "pv"}}}
	made   = &volumebindingreserve.Plan{Node: "n", Provisions: []volumebindingreserve.Claim{{Namespace: "a", Name: "made", UID: "uid-x"}}}
)

func TestBinds(t *testing.T) {
	s, client := bind(t, static, time.Minute, binds, objects()...)
	if s.Code != sdk.Success {
		t.Fatalf("%+v", s)
	}
	pv, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "pv", metav1.GetOptions{})
	if err != nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Name != "static" || pv.Spec.ClaimRef.UID != "uid-x" || pv.Annotations["pv.kubernetes.io/bound-by-controller"] != "yes" {
		t.Errorf("%+v, %v", pv, err)
	}
	s, client = bind(t, made, time.Minute, binds, objects()...)
	if s.Code != sdk.Success {
		t.Fatalf("%+v", s)
	}
	claim, err := client.CoreV1().PersistentVolumeClaims("a").Get(t.Context(), "made", metav1.GetOptions{})
	if err != nil || claim.Annotations[selected] != "n" {
		t.Errorf("%+v, %v", claim, err)
	}
	if s, _ := bind(t, &volumebindingreserve.Plan{Node: "n"}, time.Minute, nil); s.Code != sdk.Success {
		t.Errorf("nothing to do: %+v", s)
	}
}

func TestFails(t *testing.T) {
	taken := func(o []runtime.Object) []runtime.Object {
		o[3].(*corev1.PersistentVolume).Spec.ClaimRef = &corev1.ObjectReference{Namespace: "a", Name: "other", UID: "y"}
		return o
	}
	anew := func(o []runtime.Object) []runtime.Object {
		o[1].(*corev1.PersistentVolumeClaim).UID = "another"
		return o
	}
	away := func(o []runtime.Object) []runtime.Object {
		o[3].(*corev1.PersistentVolume).Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"m"}
		return o
	}
	undo := func(ctx context.Context, c kubernetes.Interface, o runtime.Object) {
		claim, ok := o.(*corev1.PersistentVolumeClaim)
		if !ok || claim.Annotations[selected] == "" {
			return
		}
		for ctx.Err() == nil {
			now, err := c.CoreV1().PersistentVolumeClaims("a").Get(ctx, claim.Name, metav1.GetOptions{})
			if err == nil && now.Annotations[selected] != "" {
				_, err = c.CoreV1().PersistentVolumeClaims("a").Patch(ctx, claim.Name, "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null,"x":"y"}}}`), metav1.PatchOptions{})
				if err == nil {
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name    string
		plan    *volumebindingreserve.Plan
		timeout time.Duration
		act     func(context.Context, kubernetes.Interface, runtime.Object)
		objects []runtime.Object
		want    string
	}{
		{"no plan", nil, time.Minute, nil, objects(), "nothing is known of the volumes reserved for pod a/p"},
		{"planned for another node", &volumebindingreserve.Plan{Node: "m"}, time.Minute, nil, objects(), "nothing is known"},
		{"nobody binds", static, time.Millisecond, nil, objects(), "context deadline exceeded"},
		{"another was first", static, time.Minute, nil, taken(objects()), `pv "pv" was bound to claim a/other meanwhile`},
		{"the claim is another", static, time.Minute, nil, anew(objects()), `persistentvolumeclaim "static" was deleted and made anew`},
		{"out of reach", static, time.Minute, nil, away(objects()), `pv "pv" node affinity doesn't match node "n": no matching NodeSelectorTerms`},
		{"the pod is gone", static, time.Minute, nil, objects()[1:], "pod does not exist any more"},
		{"provisioning failed", made, time.Minute, undo, objects(), `provisioning failed for PVC "made"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s, _ := bind(t, c.plan, c.timeout, c.act, c.objects...); s.Code != sdk.Error || !strings.Contains(s.Reasons[0], c.want) {
				t.Errorf("%+v, want %q", s, c.want)
			}
		})
	}
}

// The time-out leaves time to answer in.
func TestWithin(t *testing.T) {
	b := &binder{}
	b.timeout.Store(int64(time.Hour))
	call, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctx, end := b.within(call)
	defer end()
	until, _ := ctx.Deadline()
	if limit, _ := call.Deadline(); !until.Before(limit) {
		t.Errorf("ends %v, the call %v", until, limit)
	}
}
