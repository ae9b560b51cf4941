package container

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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
		if _, err := Security(pod, &pod.Spec.Containers[0], ImageUser{}, SeccompProfiles{}); (err == nil) != hostUsers {
			t.Errorf("hostUsers %v: %v", hostUsers, err)
		}
	}
}

// TestSeccompDefault: a container without a profile gets the runtime's where the node says so, privileged ones never.
func TestSeccompDefault(t *testing.T) {
	const unconfined, runtimeDefault = runtimeapi.SecurityProfile_Unconfined, runtimeapi.SecurityProfile_RuntimeDefault
	own := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	for _, c := range []struct {
		name       string
		byDefault  bool
		profile    *corev1.SeccompProfile
		privileged bool
		want       runtimeapi.SecurityProfile_ProfileType
	}{
		{"none", false, nil, false, unconfined},
		{"none, by default", true, nil, false, runtimeDefault},
		{"its own, by default", true, own, false, unconfined},
		{"privileged, by default", true, nil, true, unconfined},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: &corev1.SecurityContext{SeccompProfile: c.profile, Privileged: &c.privileged}}}}}
			got, err := Security(pod, &pod.Spec.Containers[0], ImageUser{}, SeccompProfiles{Default: c.byDefault})
			if err != nil || got.Seccomp.ProfileType != c.want {
				t.Errorf("%v, %v; want %v", got.GetSeccomp(), err, c.want)
			}
		})
	}
}
