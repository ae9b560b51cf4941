package apps

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTemplateGeneration: the count follows the template, from what is stored.
func TestTemplateGeneration(t *testing.T) {
	count := func(v string) map[string]string {
		return map[string]string{appsv1.DeprecatedTemplateGeneration: v, "own": "x"}
	}
	for _, c := range []struct {
		name      string
		old, sent map[string]string
		changed   bool
		want      string
	}{
		{"unchanged", count("4"), count("4"), false, "4"},
		{"changed", count("4"), count("4"), true, "5"},
		{"raised by the client", count("4"), count("9"), false, "4"},
		{"lowered by the client", count("4"), count("1"), true, "5"},
		{"left out", count("4"), nil, false, "4"},
		{"never counted", nil, nil, true, "1"},
		{"no number", count("4"), count("x"), true, "x"},
	} {
		old := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: c.old}}
		o := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: maps.Clone(c.sent)}}
		if c.changed {
			o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
		}
		sent := o.Annotations
		before := maps.Clone(sent)
		prepareDaemonSetUpdate(o, old)
		if got := o.Annotations[appsv1.DeprecatedTemplateGeneration]; got != c.want {
			t.Errorf("%s: count %q, want %q", c.name, got, c.want)
		}
		if (o.Generation == 3) != c.changed {
			t.Errorf("%s: generation %d", c.name, o.Generation)
		}
		if !maps.Equal(sent, before) {
			t.Errorf("%s: the map that was sent has changed: %v", c.name, sent)
		}
		if bad := len(validateTemplateGeneration(o)) > 0; bad != (c.want == "x") {
			t.Errorf("%s: refused %v", c.name, bad)
		}
	}
}

// TestVolumesWithClaims: a claim's volume takes the place of one of its name, and
// two claims of one name are one volume; volumes that are there twice stay, for
// the validation to see.
func TestVolumesWithClaims(t *testing.T) {
	claims := func(names ...string) (out []corev1.PersistentVolumeClaim) {
		for _, n := range names {
			out = append(out, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: n}})
		}
		return out
	}
	volumes := func(names ...string) (out []corev1.Volume) {
		for _, n := range names {
			out = append(out, corev1.Volume{Name: n})
		}
		return out
	}
	for _, c := range []struct{ volumes, claims, want []string }{
		{[]string{"a", "b"}, nil, []string{"a", "b"}},
		{[]string{"a", "b"}, []string{"b", "c"}, []string{"b", "c", "a"}},
		{nil, []string{"b", "b"}, []string{"b"}},
		{[]string{"a", "a"}, []string{"b"}, []string{"b", "a", "a"}},
	} {
		var got []string
		for _, v := range volumesWithClaims(volumes(c.volumes...), claims(c.claims...)) {
			got = append(got, v.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v with %v: %v", c.volumes, c.claims, got)
		}
	}
}
