package api

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"pintle.dev/pintle/kernel/api/resources"
)

// judge counts what it is asked, and finds what the pod's annotations say.
type judge struct {
	rest.RESTCreateStrategy
	asked, made, canonical int
}

func (j *judge) PrepareForCreate(context.Context, runtime.Object) { j.made++ }
func (j *judge) Canonicalize(runtime.Object)                      { j.canonical++ }

func (j *judge) Validate(_ context.Context, obj runtime.Object) (errs field.ErrorList) {
	j.asked++
	if obj.(*corev1.Pod).Annotations["fault"] != "" {
		errs = append(errs, field.Required(field.NewPath("spec"), ""))
	}
	return errs
}

func (j *judge) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	if w := obj.(*corev1.Pod).Annotations["warning"]; w != "" {
		return []string{w}
	}
	return nil
}

// withToken is a pod as the admission of service accounts leaves it.
func withToken(name, drawn string, change ...func(*corev1.Pod)) *corev1.Pod {
	volume, now := "kube-api-access-"+drawn, metav1.NewTime(time.Now())
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("of " + name), CreationTimestamp: now,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "v1", Time: &now}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/token"}}}},
			Volumes:    []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
		},
	}
	for _, do := range change {
		do(p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func mounting(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].Name = name }
}

// TestVetting: a pod that differs in its identity alone is not validated again, and
// any other is.
func TestVetting(t *testing.T) {
	blank := "kube-api-access-" + strings.Repeat("\x00", 5)
	cases := map[string]struct {
		first, second *corev1.Pod
		again         bool // the second is validated
		refused       bool // by the common rules of names
	}{
		"identity":           {withToken("a", "bcdfg"), withToken("b-1", "xyz01"), false, false},
		"no token":           {withToken("a", "bcdfg", func(p *corev1.Pod) { p.Spec.Volumes = nil }), withToken("b", "bcdfg", func(p *corev1.Pod) { p.Spec.Volumes = nil }), false, false},
		"namespace":          {withToken("a", "bcdfg"), withToken("a", "bcdfg", func(p *corev1.Pod) { p.Namespace = "other" }), true, false},
		"generate name":      {withToken("a", "bcdfg"), withToken("a", "bcdfg", func(p *corev1.Pod) { p.GenerateName = "a" }), true, false},
		"labels":             {withToken("a", "bcdfg"), withToken("a", "bcdfg", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), true, false},
		"image":              {withToken("a", "bcdfg"), withToken("a", "bcdfg", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }), true, false},
		"status":             {withToken("a", "bcdfg"), withToken("a", "bcdfg", func(p *corev1.Pod) { p.Status.Phase = "Odd" }), true, false},
		"manager":            {withToken("a", "bcdfg"), withToken("a", "bcdfg", func(p *corev1.Pod) { p.ManagedFields[0].Manager = "n" }), true, false},
		"fault":              {withToken("a", "bcdfg", annotated("fault", "1")), withToken("b", "bcdfg", annotated("fault", "1")), true, false},
		"warning":            {withToken("a", "bcdfg", annotated("warning", "1")), withToken("b", "bcdfg", annotated("warning", "1")), true, false},
		"name not a label":   {withToken("a", "bcdfg"), withToken("a.b", "bcdfg"), true, false},
		"name in capitals":   {withToken("a", "bcdfg"), withToken("A", "bcdfg"), true, false},
		"name ends in -":     {withToken("a", "bcdfg"), withToken("a-", "bcdfg"), true, false},
		"no name":            {withToken("a", "bcdfg"), withToken("", "bcdfg"), true, true},
		"long name":          {withToken("a", "bcdfg"), withToken(strings.Repeat("a", 64), "bcdfg"), true, false},
		"drawn is a -":       {withToken("a", "bcdfg"), withToken("a", "bcd-g"), true, false},
		"drawn in capitals":  {withToken("a", "bcdfg"), withToken("a", "BCDFG"), true, false},
		"drawn is longer":    {withToken("a", "bcdfg"), withToken("a", "bcdfgh"), true, false},
		"mounts another":     {withToken("a", "bcdfg"), withToken("a", "xyz01", mounting("kube-api-access-bcdfg")), true, false},
		"mounts what is cut": {withToken("a", "bcdfg"), withToken("a", "bcdfg", mounting(blank)), true, false},
		"claims by name":     {withToken("a", "bcdfg", ephemeral), withToken("b", "bcdfg", ephemeral), true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kinds, err := resources.All(resources.Options{ServiceCIDR: "10.0.0.0/16"})
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(kinds, func(k resources.Kind) bool { return k.Resource == "pods" })
			j, known := &judge{RESTCreateStrategy: kinds[at].Strategy}, &vettedPods{}
			for i, pod := range []*corev1.Pod{c.first, c.second} {
				before := pod.DeepCopy()
				recorder := &warnings{}
				ctx := warning.WithWarningRecorder(request.WithNamespace(t.Context(), pod.Namespace), recorder)
				err := known.beforeCreate(ctx, j, pod)
				if want := pod.Annotations["fault"] != "" || i == 1 && c.refused; (err != nil) != want {
					t.Errorf("pod %d: %v", i, err)
				}
				if want := pod.Annotations["warning"] != ""; (len(*recorder) > 0) != want {
					t.Errorf("pod %d: warnings %v", i, *recorder)
				}
				if pod.String() != before.String() {
					t.Errorf("pod %d has changed: %v, was %v", i, pod, before)
				}
				if j.made != i+1 {
					t.Errorf("pod %d: prepared %d times", i, j.made)
				}
				if err == nil && j.canonical != i+1 {
					t.Errorf("pod %d: made canonical %d times", i, j.canonical)
				}
				j.canonical = i + 1
			}
			if got := j.asked == 2; got != c.again {
				t.Errorf("validated %d times", j.asked)
			}
		})
	}
}

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func ephemeral(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
}

// TestVettedPodsBound: what is remembered does not grow.
func TestVettedPodsBound(t *testing.T) {
	v := &vettedPods{}
	for i := range 3*maxVetted + 1 {
		v.add([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		if len(v.pods) > maxVetted {
			t.Fatalf("%d are remembered", len(v.pods))
		}
	}
}
