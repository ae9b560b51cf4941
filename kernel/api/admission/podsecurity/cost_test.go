package podsecurity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// BenchmarkValidate is what the level costs the create of a pod.
func BenchmarkValidate(b *testing.B) {
	for name, data := range map[string]string{
		"privileged": "",
		"baseline":   "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: baseline, audit: baseline, warn: baseline}\n",
	} {
		b.Run(name, func(b *testing.B) {
			client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
			factory := informers.NewSharedInformerFactory(client, 0)
			p, err := New(client, factory, []byte(data))
			if err != nil {
				b.Fatal(err)
			}
			factory.Start(b.Context().Done())
			factory.WaitForCacheSync(b.Context().Done())
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "u"})
			for b.Loop() {
				if err := p.Validate(b.Context(), a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
