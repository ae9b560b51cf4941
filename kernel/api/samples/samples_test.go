package samples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pintle.dev/pintle/kernel/store"

	"github.com/klauspost/compress/s2"
)

func stored(t testing.TB, obj runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func meta(name string, fields string) metav1.ObjectMeta {
	at := metav1.NewTime(time.Unix(1_800_000_000, 0))
	return metav1.ObjectMeta{
		Name: name, Namespace: "shop", UID: "0b5f7a3e-11aa-4c9d-8e55-aa12bb34cc56", CreationTimestamp: at,
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
		}},
	}
}

// bound is a pod as a scheduler binds it, and what it says of that.
func bound(name string) (*corev1.Pod, *corev1.Event) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta(name,
		`{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"77777777-11aa-4c9d-8e55-aa12bb34cc56\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{".":{},"f:requests":{".":{},"f:cpu":{}}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`)}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "front-5f6d7c8b9",
		UID: "77777777-11aa-4c9d-8e55-aa12bb34cc56", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
	pod.Labels = map[string]string{"app": "front", "pod-template-hash": "5f6d7c8b9"}
	pod.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "web", Image: "example.com/shop/web:4.2", ImagePullPolicy: corev1.PullIfNotPresent,
			Resources:              corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m")}},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr.To(int64(30)), DNSPolicy: corev1.DNSClusterFirst,
		ServiceAccountName: "default", DeprecatedServiceAccount: "default", SecurityContext: &corev1.PodSecurityContext{},
		NodeName: "worker-17", SchedulerName: "default-scheduler", EnableServiceLinks: ptr.To(true), Priority: ptr.To(int32(0)),
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}
	event := &corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ObjectMeta: meta(name+".17f0e2d3c4b5a697",
		`{"f:action":{},"f:eventTime":{},"f:note":{},"f:reason":{},"f:regarding":{},"f:reportingController":{},"f:reportingInstance":{},"f:type":{}}`),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: name, APIVersion: "v1", UID: "0b5f7a3e-11aa-4c9d-8e55-aa12bb34cc56"},
		Reason:         "Scheduled", Message: "Successfully assigned shop/" + name + " to worker-17", Type: corev1.EventTypeNormal,
		ReportingController: "default-scheduler", ReportingInstance: "default-scheduler-worker-1", Action: "Binding"}
	return pod, event
}

// Objects that are not the samples have most of their bytes in common with them (API-7).
func TestDictionaries(t *testing.T) {
	pod, event := bound("front-5f6d7c8b9-abcde")
	dictionaries, err := Dictionaries()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		prefix string
		object runtime.Object
		most   int // percent
	}{
		{"/registry/pods/", pod, 35},
		{"/registry/events/", event, 45},
	} {
		value := stored(t, c.object)
		got := len(s2.MakeDict(dictionaries[c.prefix], nil).Encode(nil, value)) // as the store does
		t.Logf("%s: %d of %d bytes are left", c.prefix, got, len(value))
		if got*100 > len(value)*c.most {
			t.Errorf("%s: %d of %d bytes are left, want at most %d %%", c.prefix, got, len(value), c.most)
		}
	}
	again, err := Dictionaries()
	for prefix, text := range dictionaries {
		if err != nil || !bytes.Equal(again[prefix], text) {
			t.Errorf("%s: its samples are not encoded alike twice, %v", prefix, err)
		}
	}
}

func TestSamplesAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ documents, want string }{
		"unknown field": {`[{"kind": "Pod", "spec": {"contaners": []}}]`, "contaners"},
		"no JSON":       {"kind: [", "invalid character"},
	} {
		if _, err := encode([]byte(c.documents), func() runtime.Object { return new(corev1.Pod) }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the store takes for pods that are bound, 64 at a time, and as many events (BenchmarkBind/packed=false: without
// dictionaries), in microseconds of processor time of the program and of the system.
func BenchmarkBind(b *testing.B) {
	const pods, together = 5000, 64
	dictionaries, err := Dictionaries()
	if err != nil {
		b.Fatal(err)
	}
	var podValues, eventValues [][]byte
	for i := range pods {
		pod, event := bound(fmt.Sprintf("front-5f6d7c8b9-%05d", i))
		pod.UID = types.UID(uuid.NewString())
		event.UID, event.InvolvedObject.UID = types.UID(uuid.NewString()), pod.UID
		podValues, eventValues = append(podValues, stored(b, pod)), append(eventValues, stored(b, event))
	}
	for _, packed := range []bool{false, true} {
		b.Run(fmt.Sprintf("packed=%t", packed), func(b *testing.B) {
			cfg := store.Config{Dir: b.TempDir(), Retention: -1, MaxHistory: -1}
			if packed {
				cfg.Dictionaries = dictionaries
			}
			s, err := store.Open(cfg)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			commit := func(key string, values [][]byte, expect uint64) {
				for i := 0; i < pods; i += together {
					var writes []store.Write
					for j := i; j < min(i+together, pods); j++ {
						writes = append(writes, store.Write{Key: fmt.Sprintf(key, j), Value: values[j], Expect: expect})
					}
					if err := errors.Join(s.CommitAll(ctx, writes)...); err != nil {
						b.Error(err)
					}
				}
			}
			commit("/registry/pods/shop/front-5f6d7c8b9-%05d", podValues, 0)
			var before, after unix.Rusage
			err = unix.Getrusage(unix.RUSAGE_SELF, &before)
			rounds := 0
			for b.Loop() {
				rounds++
				var wg sync.WaitGroup
				wg.Go(func() { commit("/registry/pods/shop/front-5f6d7c8b9-%05d", podValues, store.AnyRevision) })
				wg.Go(func() { commit(fmt.Sprintf("/registry/events/shop/front-5f6d7c8b9-%%05d.%d", rounds), eventValues, 0) })
				wg.Wait()
			}
			if err := errors.Join(err, unix.Getrusage(unix.RUSAGE_SELF, &after)); err != nil {
				b.Fatal(err)
			}
			a := float64(rounds * pods)
			b.ReportMetric(float64(after.Utime.Nano()-before.Utime.Nano())/1e3/a, "user-µs/pod")
			b.ReportMetric(float64(after.Stime.Nano()-before.Stime.Nano())/1e3/a, "system-µs/pod")
			b.ReportMetric(float64(after.Minflt-before.Minflt)/a, "faults/pod")
			cancel()
			if err := errors.Join(<-done, s.Close()); err != nil {
				b.Error(err)
			}
		})
	}
}
