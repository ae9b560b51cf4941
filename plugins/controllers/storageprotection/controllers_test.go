package storageprotection

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/controller"
)

const other = "example.com/other"

// going is an object that is deleted and still has finalizers.
func going(finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "o", Namespace: "n", UID: "u", ResourceVersion: "7", DeletionTimestamp: &metav1.Time{Time: time.Unix(1000, 0)}, Finalizers: finalizers}
}

func staying(finalizers ...string) metav1.ObjectMeta {
	m := going(finalizers...)
	m.DeletionTimestamp = nil
	return m
}

// clusterWide is for kinds without a namespace.
func clusterWide(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Namespace = ""
	return m
}

func claim(m metav1.ObjectMeta) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: m}
}

func user(name, node string, volumes ...corev1.VolumeSource) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	for _, v := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "o", VolumeSource: v})
	}
	return pod
}

func of(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

var generic = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}

func in(phase corev1.PodPhase, pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = phase
	return pod
}

func ended(grace int64, pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = &metav1.Time{Time: time.Unix(1000, 0)}, &grace, []string{other}
	return pod
}

// ephemeralClaim is the claim p-o that pod p made, by its controller reference.
func ephemeralClaim(owner types.UID) *corev1.PersistentVolumeClaim {
	o := claim(going(string(ofClaims), other))
	o.Name = "p-o"
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: owner, Controller: ptr.To(true)}}
	return o
}

func TestSync(t *testing.T) {
	elsewhere := user("p", "node", of("o"))
	elsewhere.Namespace = "m"
	protected, left := []string{string(ofClaims), other}, []string{other}
	for name, tc := range map[string]struct {
		of     func(*controller.Context) (controller.Runner, error)
		object runtime.Object
		cached []runtime.Object // the informers and the API server have it
		live   []runtime.Object // the API server alone
		want   []string
	}{
		"a claim without":             {of: NewClaims, object: claim(staying(other)), want: []string{other, string(ofClaims)}},
		"a claim with":                {of: NewClaims, object: claim(staying(protected...)), want: protected},
		"an unused claim":             {of: NewClaims, object: claim(going(protected...)), want: left},
		"of somebody else":            {of: NewClaims, object: claim(going(other)), want: left},
		"used":                        {of: NewClaims, object: claim(going(protected...)), cached: []runtime.Object{user("p", "node", of("o"))}, want: protected},
		"used, says the server alone": {of: NewClaims, object: claim(going(protected...)), live: []runtime.Object{user("p", "node", of("o"))}, want: protected},
		"by a finished pod":           {of: NewClaims, object: claim(going(protected...)), cached: []runtime.Object{in(corev1.PodSucceeded, user("p", "node", of("o")))}, want: protected},
		"by a pod that ends":          {of: NewClaims, object: claim(going(protected...)), cached: []runtime.Object{ended(0, user("p", "node", of("o")))}, want: protected},
		"by a pod without a node":     {of: NewClaims, object: claim(going(protected...)), cached: []runtime.Object{user("p", "", of("o"))}, want: left},
		"another claim is used":       {of: NewClaims, object: claim(going(protected...)), cached: []runtime.Object{user("p", "node", of("x"), of("oo"))}, want: left},
		"in another namespace":        {of: NewClaims, object: claim(going(protected...)), cached: []runtime.Object{elsewhere}, want: left},
		"ephemeral, pod runs":         {of: NewClaims, object: ephemeralClaim("p"), cached: []runtime.Object{user("p", "node", generic)}, want: protected},
		"ephemeral, pod ends":         {of: NewClaims, object: ephemeralClaim("p"), cached: []runtime.Object{ended(30, user("p", "node", generic))}, want: protected},
		"ephemeral, pod has ended":    {of: NewClaims, object: ephemeralClaim("p"), cached: []runtime.Object{ended(0, user("p", "node", generic))}, want: left},
		"ephemeral, of an older pod":  {of: NewClaims, object: ephemeralClaim("before"), cached: []runtime.Object{user("p", "node", generic)}, want: left},

		"a volume without": {of: NewVolumes, object: &corev1.PersistentVolume{ObjectMeta: clusterWide(staying())}, want: []string{string(ofVolumes)}},
		"a bound volume": {of: NewVolumes, object: &corev1.PersistentVolume{ObjectMeta: clusterWide(going(string(ofVolumes), other)),
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}, want: []string{string(ofVolumes), other}},
		"a released volume": {of: NewVolumes, object: &corev1.PersistentVolume{ObjectMeta: clusterWide(going(string(ofVolumes), other)),
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased}}, want: left},

		"a class without": {of: NewClasses, object: &storagev1.VolumeAttributesClass{ObjectMeta: clusterWide(staying())}, want: []string{string(ofClasses)}},
		"an unused class": {of: NewClasses, object: &storagev1.VolumeAttributesClass{ObjectMeta: clusterWide(going(string(ofClasses), other))},
			cached: []runtime.Object{&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: ptr.To("x")}}}, want: left},
		"of a volume": {of: NewClasses, object: &storagev1.VolumeAttributesClass{ObjectMeta: clusterWide(going(string(ofClasses), other))},
			cached: []runtime.Object{&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: ptr.To("o")}}}, want: []string{string(ofClasses), other}},
		"wanted": {of: NewClasses, object: &storagev1.VolumeAttributesClass{ObjectMeta: clusterWide(going(string(ofClasses), other))},
			cached: []runtime.Object{&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: ptr.To("o")}}}, want: []string{string(ofClasses), other}},
		"in force": {of: NewClasses, object: &storagev1.VolumeAttributesClass{ObjectMeta: clusterWide(going(string(ofClasses), other))},
			cached: []runtime.Object{&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}, Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: ptr.To("o")}}}, want: []string{string(ofClasses), other}},
		"on the way": {of: NewClasses, object: &storagev1.VolumeAttributesClass{ObjectMeta: clusterWide(going(string(ofClasses), other))},
			cached: []runtime.Object{&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}, Status: corev1.PersistentVolumeClaimStatus{
				ModifyVolumeStatus: &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "o"}}}}, want: []string{string(ofClasses), other}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(append(append([]runtime.Object{tc.object}, tc.cached...), tc.live...)...)
			cached := fake.NewClientset(append([]runtime.Object{tc.object}, tc.cached...)...)
			factory := informers.NewSharedInformerFactory(cached, 0)
			runner, err := tc.of(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory})
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(t.Context().Done())
			factory.WaitForCacheSync(t.Context().Done())
			t.Cleanup(factory.Shutdown)
			o := tc.object.(metav1.Object)
			have := func() metav1.Object {
				t.Helper()
				var o2 metav1.Object
				var err error
				switch k := runner.(type) {
				case *claims:
					o2, err = k.client.PersistentVolumeClaims("n").Get(t.Context(), o.GetName(), metav1.GetOptions{})
				case *volumes:
					o2, err = k.client.PersistentVolumes().Get(t.Context(), o.GetName(), metav1.GetOptions{})
				case *classes:
					o2, err = k.client.VolumeAttributesClasses().Get(t.Context(), o.GetName(), metav1.GetOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
				return o2
			}
			if err := syncOf(runner)(t.Context(), key(runner, o)); err != nil {
				t.Fatal(err)
			}
			if got := have().GetFinalizers(); !sameNames(got, tc.want) {
				t.Errorf("finalizers %q, want %q", got, tc.want)
			}
			for _, a := range client.Actions() {
				p, ok := a.(clienttesting.PatchAction)
				if ok && !(strings.Contains(string(p.GetPatch()), `"uid":"u"`) && strings.Contains(string(p.GetPatch()), `"resourceVersion":"7"`)) {
					t.Errorf("the patch %s does not name what was decided about", p.GetPatch())
				}
			}
		})
	}
}

func syncOf(runner controller.Runner) func(context.Context, string) error {
	switch k := runner.(type) {
	case *claims:
		return k.sync
	case *volumes:
		return k.sync
	}
	return runner.(*classes).sync
}

func key(runner controller.Runner, o metav1.Object) string {
	if _, ok := runner.(*claims); ok {
		return o.GetNamespace()
	}
	return o.GetName()
}

func sameNames(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// Many claims that are deleted at once are decided by one list of pods; when it fails,
// none is let go.
func TestOneList(t *testing.T) {
	objects := []runtime.Object{}
	for _, name := range []string{"a", "b", "c"} {
		o := claim(going(string(ofClaims), other))
		o.Name, o.UID = name, types.UID(name)
		objects = append(objects, o)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	runner, err := NewClaims(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	k := runner.(*claims)
	lists, fails := 0, true
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		if fails {
			return true, nil, errors.New("the server is busy")
		}
		return false, nil, nil
	})
	patches := func() (n int) {
		for _, a := range client.Actions() {
			if a.GetVerb() == "patch" {
				n++
			}
		}
		return n
	}
	if err := k.sync(t.Context(), "n"); err == nil || patches() != 0 {
		t.Errorf("with a list that fails: %v, %d finalizers gone", err, patches())
	}
	fails, lists = false, 0
	if err := k.sync(t.Context(), "n"); err != nil || lists != 1 || patches() != 3 {
		t.Errorf("%v, %d lists, %d finalizers gone; want 1 and 3", err, lists, patches())
	}
}

// What ends a use has the claim looked at.
func TestLets(t *testing.T) {
	running, waiting := user("p", "node", of("o")), user("p", "", of("o"))
	again := user("p", "node")
	again.UID = "second"
	for name, tc := range map[string]struct {
		old, current *corev1.Pod
		want         bool
	}{
		"runs":                     {running, running, false},
		"is gone":                  {running, nil, true},
		"has ended":                {running, ended(0, user("p", "node", generic)), true},
		"ends":                     {running, ended(30, user("p", "node", of("o"))), false},
		"never had a node":         {nil, waiting, true},
		"another took its place":   {running, again, true},
		"names no claim, and goes": {again, nil, false},
	} {
		if got := lets(tc.old, tc.current); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
