package api_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
)

func scheduledEvent(name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, EventTime: metav1.NewMicroTime(time.UnixMicro(1700000000123456)),
		ReportingController: "default-scheduler", ReportingInstance: "default-scheduler-host", Action: "Binding", Reason: "Scheduled",
		Regarding: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "default", Name: "p", UID: "u", ResourceVersion: "7"},
		Note:      "Successfully assigned default/p to n", Type: corev1.EventTypeNormal,
	}
}

var schedulerUser = &user.DefaultInfo{Name: "system:kube-scheduler"}

// What goes past HTTP is what a client's create would have stored, and is refused as
// that would be.
func TestEventWithoutHTTP(t *testing.T) {
	s := start(t, t.TempDir())
	client := kubernetes.NewForConfigOrDie(s.ClientConfig(schedulerUser))
	viewer := kubernetes.NewForConfigOrDie(s.ClientConfig(admin))
	related := func(e *eventsv1.Event) *eventsv1.Event {
		e.Related = &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "default", Name: "q", UID: "v"}
		return e
	}
	plain := func(e *eventsv1.Event) *eventsv1.Event { return e }
	for name, shape := range map[string]func(*eventsv1.Event) *eventsv1.Event{"plain": plain, "related": related} {
		if _, err := client.EventsV1().Events("default").Create(t.Context(), shape(scheduledEvent(name+".http")), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{shape(scheduledEvent(name + ".direct"))})[0]; err != nil {
			t.Fatal(err)
		}
		var got []*corev1.Event
		for _, way := range []string{".http", ".direct"} {
			e, err := viewer.CoreV1().Events("default").Get(t.Context(), name+way, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if e.UID == "" || e.ResourceVersion == "" || e.CreationTimestamp.IsZero() || len(e.ManagedFields) != 1 || e.ManagedFields[0].Time == nil {
				t.Errorf("%s: %+v", e.Name, e.ObjectMeta)
			}
			e.Name, e.UID, e.ResourceVersion, e.CreationTimestamp, e.ManagedFields[0].Time = "", "", "", metav1.Time{}, nil
			got = append(got, e)
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s:\n%+v\nby HTTP\n%+v", name, got[1], got[0])
		}
	}
	// A series on top of it, as the recorder writes it.
	patch := []byte(`{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`)
	if e, err := client.EventsV1().Events("default").Patch(t.Context(), "plain.direct", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil || e.Series.Count != 2 {
		t.Errorf("series: %+v, %v", e, err)
	}
	if err := s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{scheduledEvent("plain.http")})[0]; !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second time: %v", err)
	}
	long := scheduledEvent("long")
	long.Note = strings.Repeat("x", 1025)
	if err := s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{long})[0]; !apierrors.IsInvalid(err) {
		t.Errorf("a note of 1,025 bytes: %v", err)
	}
	nowhere := scheduledEvent("nowhere")
	nowhere.Namespace = "missing"
	nowhere.Regarding.Namespace = "missing"
	if err := s.CreateEvents(t.Context(), schedulerUser, []*eventsv1.Event{nowhere})[0]; !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that is not there: %v", err)
	}
}

// BenchmarkEventWithoutHTTP is durable events as the recorder writes them,
// with the processor time of each.
func BenchmarkEventWithoutHTTP(b *testing.B) {
	s := start(b, b.TempDir())
	var next atomic.Int64
	var wg sync.WaitGroup
	ctx := b.Context()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.ResetTimer()
	began := used()
	const batch = 128
	for range 2 {
		wg.Go(func() {
			for {
				first := next.Add(batch) - batch
				if first >= int64(b.N) {
					return
				}
				events := make([]*eventsv1.Event, batch)
				for i := range events {
					events[i] = scheduledEvent(fmt.Sprintf("p-%d", first+int64(i)))
				}
				if err := errors.Join(s.CreateEvents(ctx, schedulerUser, events)...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op")
}
