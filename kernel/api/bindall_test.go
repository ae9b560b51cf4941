package api_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
)

func bindingOf(p *corev1.Pod, node string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

// TestBindAll binds pods together: each ends as it would by itself, and no pod is
// bound twice.
func TestBindAll(t *testing.T) {
	s := start(t, t.TempDir())
	pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
	// made are the bindings of one way, over pods of its own.
	made := func(prefix string) (list []*corev1.Binding) {
		create := func(p *corev1.Pod) *corev1.Pod {
			p.Name = prefix + p.Name
			p, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		for i := range 20 {
			list = append(list, bindingOf(create(pod(fmt.Sprintf("plain-%d", i))), fmt.Sprintf("node-%d", i)))
		}
		twice := create(pod("twice"))
		list = append(list, bindingOf(twice, "node-1"), bindingOf(twice, "node-2"))
		there := pod("there")
		there.Spec.NodeName = "node-3"
		list = append(list, bindingOf(create(there), "node-4"))
		gated := gatedPod()
		gated.Name = "gated"
		list = append(list, bindingOf(create(gated), "node-5"))
		another := create(pod("another"))
		another.UID = "another"
		list = append(list, bindingOf(another, "node-6"))
		absent := pod(prefix + "absent")
		absent.Namespace = "default"
		list = append(list, bindingOf(absent, "node-7"))
		list = append(list, bindingOf(create(pod("nowhere")), ""))
		return list
	}
	alone, together := made("a-"), made("b-")
	failures := s.BindAll(t.Context(), together)
	for i, b := range alone {
		want := s.Bind(t.Context(), b)
		got := failures[i]
		if (got == nil) != (want == nil) || apierrors.ReasonForError(got) != apierrors.ReasonForError(want) {
			t.Errorf("%s to %q: together %v, alone %v", together[i].Name, together[i].Target.Name, got, want)
		}
	}
	for i := range alone {
		for _, b := range []*corev1.Binding{alone[i], together[i]} {
			p, err := pods.Get(t.Context(), b.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if i < 21 && p.Spec.NodeName != b.Target.Name {
				t.Errorf("%s is on %q, not on %s", b.Name, p.Spec.NodeName, b.Target.Name)
			}
		}
	}
}

// BenchmarkBind is the processor time of a binding, of 64 at once, alone and together.
func BenchmarkBind(b *testing.B) {
	const atOnce = 64
	ways := map[string]func(s *api.Server, list []*corev1.Binding) []error{
		"Together": func(s *api.Server, list []*corev1.Binding) []error { return s.BindAll(b.Context(), list) },
		"Alone": func(s *api.Server, list []*corev1.Binding) []error {
			failures := make([]error, len(list))
			var group sync.WaitGroup
			for i := range list {
				group.Go(func() { failures[i] = s.Bind(b.Context(), list[i]) })
			}
			group.Wait()
			return failures
		},
	}
	for name, bind := range ways {
		b.Run(name, func(b *testing.B) {
			s := start(b, b.TempDir())
			pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
			list := make([]*corev1.Binding, b.N)
			var group sync.WaitGroup
			for w := range 16 {
				group.Go(func() {
					for i := w; i < len(list); i += 16 {
						p, err := pods.Create(b.Context(), pod(fmt.Sprintf("p-%d", i)), metav1.CreateOptions{})
						if err != nil {
							b.Error(err)
							return
						}
						list[i] = bindingOf(p, "node-1")
					}
				})
			}
			group.Wait()
			if b.Failed() {
				return
			}
			before := used()
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < len(list); i += atOnce {
				for _, err := range bind(s, list[i:min(i+atOnce, len(list))]) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// used is the processor time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
