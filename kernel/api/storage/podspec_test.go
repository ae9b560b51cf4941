package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func newSpecs(t testing.TB) *podSpecs {
	t.Helper()
	p := newPodSpecs(&corev1.Pod{}, envelopeOf(codecFor(t, corev1.SchemeGroupVersion), &corev1.Pod{}))
	if p == nil {
		t.Fatal("no specs of pods")
	}
	return p
}

// withToken is a pod as a controller makes many, after admission.
func withToken(drawn string) *corev1.Pod {
	volume, seconds, mode := "kube-api-access-"+drawn, int64(3607), int32(420)
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p-" + drawn, Namespace: "ns", UID: "u", Labels: map[string]string{"app": "x", "tier": "y"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "before", VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/token"}}}},
			Containers: []corev1.Container{{
				Name: "pause", Image: "pause", Resources: corev1.ResourceRequirements{Limits: room, Requests: room},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: volume, MountPath: "/token", ReadOnly: true}},
			}},
			NodeSelector: map[string]string{"a": "b", "c": "d"}, RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &seconds,
			SchedulerName: "default-scheduler", Priority: new(int32),
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"}},
				}}}},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
}

// boundTo is a pod with all that a binding changes.
func boundTo(before *corev1.Pod, node string) *corev1.Pod {
	pod := *before
	pod.Spec.NodeName = node
	pod.Annotations = map[string]string{"by": "me"}
	pod.Status.NominatedNodeName = ""
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)}}
	return &pod
}

// checkBound compares the encoding of pods that become bound with what the codec makes of them, and says of how many
// the spec's encoding was known.
func checkBound(t *testing.T, p *podSpecs, node string, pods ...*corev1.Pod) (known int) {
	t.Helper()
	codec := codecFor(t, corev1.SchemeGroupVersion)
	for i, pod := range pods {
		p.note(uint64(i+1), pod, must(runtime.Encode(codec, pod)))
	}
	for i, pod := range pods {
		after := boundTo(pod, node)
		data, ok := p.encodeBound(uint64(i+1), after)
		if !ok {
			continue
		}
		known++
		if want := must(runtime.Encode(codec, after)); !bytes.Equal(data, want) {
			t.Fatalf("pod %d to %q:\n%q, want\n%q", i, node, data, want)
		}
		if _, ok := p.encodeBound(uint64(i+1), after); ok {
			t.Errorf("pod %d: the encoding is known twice", i)
		}
	}
	return known
}

// The encodings of bound pods are those of the codec, and of the specs that come again they are known.
func TestBoundPodIsEncoded(t *testing.T) {
	edited := func(drawn string, edit func(pod *corev1.Pod)) *corev1.Pod {
		pod := withToken(drawn)
		edit(pod)
		return pod
	}
	plain := func() *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	}
	says := func(drawn string) *corev1.Pod {
		return edited(drawn, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Args = []string{pod.Spec.Volumes[1].Name}
		})
	}
	blank := func(drawn string) *corev1.Pod {
		return edited(drawn, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].VolumeMounts[1].Name = strings.Repeat("\x00", len("kube-api-access-")+len(drawn))
		})
	}
	tests := []struct {
		name  string
		pods  []*corev1.Pod
		known int
	}{
		{"one", []*corev1.Pod{withToken("bcdfg")}, 0},
		{"of one controller", []*corev1.Pod{withToken("bcdfg"), withToken("hjklm"), withToken("npqrs")}, 2},
		{"the same", []*corev1.Pod{withToken("bcdfg"), withToken("bcdfg")}, 1},
		{"without volumes", []*corev1.Pod{plain(), plain(), plain()}, 2},
		{"empty", []*corev1.Pod{{}, {}}, 1},
		{"names of other lengths", []*corev1.Pod{withToken("bcdfg"), withToken("hjklmn"), withToken("b"), withToken("d")}, 1},
		{"another spec", []*corev1.Pod{withToken("bcdfg"), edited("hjklm", func(pod *corev1.Pod) { pod.Spec.Hostname = "h" }), withToken("npqrs")}, 1},
		{"a node", []*corev1.Pod{boundTo(withToken("bcdfg"), "n"), boundTo(withToken("bcdfg"), "n")}, 0},
		{"the name elsewhere", []*corev1.Pod{says("bcdfg"), says("hjklm"), says("npqrs")}, 0},
		{"the name of one elsewhere", []*corev1.Pod{withToken("bcdfg"), withToken("hjklm"), says("npqrs"), withToken("tvwxz")}, 2},
		{"blank", []*corev1.Pod{withToken("bcdfg"), withToken("hjklm"), blank("npqrs")}, 1},
		{"blank before", []*corev1.Pod{blank("bcdfg"), blank("hjklm"), withToken("npqrs"), withToken("tvwxz")}, 1},
		{"a mount of an ephemeral container", []*corev1.Pod{withToken("bcdfg"), edited("hjklm", func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				VolumeMounts: pod.Spec.Containers[0].VolumeMounts,
			}}}
		})}, 0},
		{"large", []*corev1.Pod{
			edited("bcdfg", func(pod *corev1.Pod) { pod.Spec.Containers[0].Args = []string{strings.Repeat("x", maxSpecEncoding)} }),
			edited("bcdfg", func(pod *corev1.Pod) { pod.Spec.Containers[0].Args = []string{strings.Repeat("x", maxSpecEncoding)} }),
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, node := range []string{"n", "node-1", strings.Repeat("n", 127), strings.Repeat("n", 128), strings.Repeat("n", 253)} {
				if known := checkBound(t, newSpecs(t), node, tt.pods...); known != tt.known {
					t.Errorf("to %s: of %d of %d the encoding was known, not of %d", node, known, len(tt.pods), tt.known)
				}
			}
		})
	}
}

// Of what is stored in another way than the encoder's nothing is known: it is encoded anew.
func TestBoundPodIsEncodedAnew(t *testing.T) {
	codec := codecFor(t, corev1.SchemeGroupVersion)
	// stored is how another has stored a pod, whose spec is encoded as spec.
	stored := func(pod *corev1.Pod, spec []byte) []byte {
		p := newSpecs(t)
		data := must(runtime.Encode(codec, pod))
		was, ok := p.specOf(data)
		if !ok {
			t.Fatal("no spec")
		}
		object := append([]byte{tagMetadata}, binary.AppendUvarint(nil, uint64(pod.ObjectMeta.Size()))...)
		object = append(object, must(pod.ObjectMeta.Marshal())...)
		behind := data[bytes.Index(data, was)+len(was) : len(data)-len(tail)]
		object = append(binary.AppendUvarint(append(object, tagSpec), uint64(len(spec))), spec...)
		object = append(object, behind...)
		out := append(bytes.Clone(p.envelope.head), tagObject)
		return append(append(binary.AppendUvarint(out, uint64(len(object))), object...), tail...)
	}
	spec := func(pod *corev1.Pod) []byte { return must(pod.Spec.Marshal()) }
	tests := []struct {
		name string
		data func(pod *corev1.Pod) []byte
		want bool
	}{
		{"as the encoder does", func(pod *corev1.Pod) []byte { return stored(pod, spec(pod)) }, true},
		{"a field of later", func(pod *corev1.Pod) []byte { return stored(pod, append(spec(pod), 0xf2, 0x3f, 1, 'x')) }, false},
		{"a field of later before", func(pod *corev1.Pod) []byte { return stored(pod, append([]byte{0xf2, 0x3f, 1, 'x'}, spec(pod)...)) }, false},
		{"a node's name twice", func(pod *corev1.Pod) []byte { return stored(pod, append(spec(pod), tagNodeName, 0)) }, false},
		{"without a default", func(pod *corev1.Pod) []byte {
			before := pod.DeepCopy()
			before.Spec.SchedulerName = ""
			return stored(pod, spec(before))
		}, false},
		{"no spec", func(pod *corev1.Pod) []byte { return stored(pod, nil) }, false},
		{"cut off", func(pod *corev1.Pod) []byte { return stored(pod, spec(pod)[:40]) }, false},
		{"of another kind", func(pod *corev1.Pod) []byte { return []byte(`{"kind":"Pod"}`) }, false},
		{"nothing", func(pod *corev1.Pod) []byte { return nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newSpecs(t)
			for i := range uint64(4) {
				pod := withToken(fmt.Sprintf("abcd%d", i))
				p.note(i+1, pod, tt.data(pod))
			}
			for i := range uint64(4) {
				pod := boundTo(withToken(fmt.Sprintf("abcd%d", i)), "node")
				data, ok := p.encodeBound(i+1, pod)
				if ok != (tt.want && i > 0) {
					t.Errorf("pod %d: known %t", i, ok)
				}
				if ok && !bytes.Equal(data, must(runtime.Encode(codec, pod))) {
					t.Errorf("pod %d: %q", i, data)
				}
			}
		})
	}
}

// A storage writes of a bound pod what it would of any, and forgets what it knew of it.
func TestBoundPodIsStored(t *testing.T) {
	f := newFixture(t, Options{})
	s, _ := podStorage(t, f)
	const pods = 5
	key := func(i int) string { return fmt.Sprintf("/pods/ns/p-%d", i) }
	for i := range pods {
		pod := withToken(fmt.Sprintf("abcd%d", i))
		if err := s.Create(t.Context(), key(i), pod, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	label(t, s, key(3))
	if err := s.Delete(t.Context(), key(4), &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := len(s.specs.of); got != pods-2 {
		t.Errorf("the specs of %d pods are known, not of %d", got, pods-2)
	}
	var list []Replacement
	before := s.store.CurrentRevision()
	for i := range pods - 1 {
		list = append(list, Replacement{Key: key(i), Binds: true, Change: func(obj runtime.Object) (runtime.Object, error) {
			return boundTo(obj.(*corev1.Pod), fmt.Sprintf("node-%d", i)), nil
		}})
	}
	for i, err := range s.ReplaceAll(t.Context(), list) {
		if err != nil {
			t.Errorf("pod %d: %v", i, err)
		}
	}
	// Whoever reads what was there before does not bring it back.
	for i := range pods - 1 {
		full := must(s.key(key(i), false))
		kv := must(s.store.GetAt(full, before))
		must(s.object(t.Context(), full, kv.Revision, kv.Value))
	}
	if got := len(s.specs.of); got != 0 {
		t.Errorf("the specs of %d bound pods are known", got)
	}
	for i := range pods - 1 {
		full := must(s.key(key(i), false))
		kv, _, err := s.store.Get(full)
		if err != nil {
			t.Fatal(err)
		}
		kept, _, ok := s.cache.latest(full)
		if !ok {
			t.Fatalf("pod %d is not in the cache", i)
		}
		if decoded := must(s.decode(kv.Value, kv.Revision)); !reflect.DeepEqual(kept, decoded) {
			t.Errorf("pod %d: kept\n%v\ndecoded\n%v", i, kept, decoded)
		}
		plain := kept.DeepCopyObject()
		if err := s.versioner.PrepareObjectForStorage(plain); err != nil {
			t.Fatal(err)
		}
		if want := must(runtime.Encode(s.codec, plain)); !bytes.Equal(kv.Value, want) {
			t.Errorf("pod %d is stored as\n%q, not as\n%q", i, kv.Value, want)
		}
	}
	s.Destroy()
	if len(s.specs.encodings) != 0 {
		t.Error("encodings outlive the storage")
	}
}

func TestPodSpecsAreBounded(t *testing.T) {
	p, codec := newSpecs(t), codecFor(t, corev1.SchemeGroupVersion)
	for i := range maxSpecEncodings * 2 {
		pod := withToken("bcdfg")
		pod.Spec.Hostname = fmt.Sprint(i)
		p.note(uint64(i+1), pod, must(runtime.Encode(codec, pod)))
	}
	if len(p.encodings) > maxSpecEncodings || len(p.of) != 0 {
		t.Errorf("%d encodings, of %d pods", len(p.encodings), len(p.of))
	}
	pod := withToken("bcdfg")
	data := must(runtime.Encode(codec, pod))
	for i := range uint64(maxPodSpecs + 10) {
		p.note(i+1, pod, data)
	}
	if len(p.of) != maxPodSpecs {
		t.Errorf("%d pods", len(p.of))
	}
	if newPodSpecs(&corev1.Node{}, p.envelope) != nil || newPodSpecs(&corev1.Pod{}, nil) != nil {
		t.Error("specs of what are no pods, or of another format")
	}
}

// FuzzBoundPod binds pods of any content.
func FuzzBoundPod(f *testing.F) {
	f.Add(uint64(1), "kube-api-access-abcde", "kube-api-access-fghij", "node-1")
	f.Add(uint64(2), "", "", "")
	f.Add(uint64(3), "a", "b", strings.Repeat("n", 300))
	f.Add(uint64(4), "\x00\x00", "\x12\x00", "\x52\x00")
	f.Fuzz(func(t *testing.T, seed uint64, one, other, node string) {
		p := newSpecs(t)
		var pods []*corev1.Pod
		for _, volume := range []string{one, other, one, other} {
			pod := random(t, podKind, seed).(*corev1.Pod)
			pod.Spec.NodeName = ""
			if n := len(pod.Spec.Volumes); n > 0 {
				pod.Spec.Volumes[n-1].Name = volume
				for i := range pod.Spec.Containers {
					pod.Spec.Containers[i].VolumeMounts = append(pod.Spec.Containers[i].VolumeMounts, corev1.VolumeMount{Name: volume})
				}
			}
			pods = append(pods, pod)
		}
		checkBound(t, p, node, pods...)
	})
}

// Pods of any content are encoded as the codec does it, and those that come again are known.
func TestAnyBoundPod(t *testing.T) {
	known := 0
	for seed := range uint64(300) {
		pod := random(t, podKind, seed).(*corev1.Pod)
		pod.Spec.NodeName = ""
		known += checkBound(t, newSpecs(t), "node", pod, pod, pod)
	}
	if known < 300 {
		t.Errorf("only of %d of 600 the encoding was known", known)
	}
}

// BenchmarkBoundPod is making a pod that becomes bound and its encoding, with nothing of it in the processor's caches.
func BenchmarkBoundPod(b *testing.B) {
	const pods = 20_000
	codec, p := codecFor(b, corev1.SchemeGroupVersion), newSpecs(b)
	list := make([]*corev1.Pod, pods)
	for i := range list {
		data := must(runtime.Encode(codec, withToken(fmt.Sprintf("%05d", i))))
		list[i] = must(runtime.Decode(codec, data)).(*corev1.Pod)
		p.note(uint64(i+1), list[i], data)
	}
	for name, encode := range map[string]func(int, *corev1.Pod) ([]byte, bool){
		"None":  func(int, *corev1.Pod) ([]byte, bool) { return nil, true },
		"Whole": func(_ int, pod *corev1.Pod) ([]byte, bool) { return p.envelope.encode(pod) },
		"SpecKnown": func(i int, pod *corev1.Pod) ([]byte, bool) {
			p.of[uint64(i+1)] = p.of[uint64(pods)] // it was taken the time before
			return p.encodeBound(uint64(i+1), pod)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			elapsed := processorTime()
			for n := range b.N {
				i := n % (pods - 1)
				if _, ok := encode(i, boundTo(list[i], "node-1")); !ok {
					b.Fatal("not encoded")
				}
			}
			b.ReportMetric(elapsed()/float64(b.N), "cpu-us/op")
		})
	}
}
