package container

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestVerifyNonRoot: an image without a user runs as root.
func TestVerifyNonRoot(t *testing.T) {
	yes, root, other := true, int64(0), int64(1000)
	for _, c := range []struct {
		name  string
		uid   *int64
		image ImageUser
		want  string
	}{
		{"no user anywhere", nil, ImageUser{}, "image will run as root"},
		{"image says root", nil, ImageUser{UID: &root}, "image will run as root"},
		{"image says a number", nil, ImageUser{UID: &other}, ""},
		{"image says a name", nil, ImageUser{Name: "boxer"}, "image has non-numeric user (boxer)"},
		{"pod says root", &root, ImageUser{UID: &other}, "runAsUser breaks non-root policy"},
		{"pod says a number", &other, ImageUser{}, ""},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: c.uid}}}
		err := VerifyNonRoot(pod, &corev1.Container{Name: "c"}, c.image)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestNoUserNamespace: a pod that asks for a user namespace does not run as the node's root instead.
func TestNoUserNamespace(t *testing.T) {
	for _, hostUsers := range []bool{true, false} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{HostUsers: &hostUsers, Containers: []corev1.Container{{Name: "c"}}}}
		if _, err := Security(pod, &pod.Spec.Containers[0], ImageUser{}, ""); (err == nil) != hostUsers {
			t.Errorf("hostUsers %v: %v", hostUsers, err)
		}
	}
}
