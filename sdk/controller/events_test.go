package controller

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
)

// Half a million events of one object: the flood is cut before it reaches the API, and
// events of another object still do.
func TestRecorderCutsFloods(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // it logs each that it drops
	t.Cleanup(klog.ClearLogger)
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		recorder, stop := Recorder(t.Context(), client, "flood")
		pod := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "1"}}
		}
		for i := range 500_000 {
			recorder.Eventf(pod("loud"), corev1.EventTypeWarning, "Failed", "attempt %d", i)
		}
		time.Sleep(time.Minute)
		recorder.Event(pod("quiet"), corev1.EventTypeNormal, "Done", "once")
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		// 25 at once and one in five minutes, by the limits of client-go.
		if n := len(client.Actions()); n < 2 || n > 30 {
			t.Errorf("%d calls", n)
		}
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, e := range list.Items {
			if e.InvolvedObject.Name == "quiet" && e.Message == "once" {
				told++
			}
		}
		if told != 1 || len(list.Items) > 30 {
			t.Errorf("%d events of the quiet pod among %d", told, len(list.Items))
		}
	})
}

// A recorder holds nothing before its first event, writes each kind, and after its stop
// neither writes nor begins.
func TestRecorderBeginsWithAnEvent(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	t.Cleanup(klog.ClearLogger)
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "1"}}
		first, stop := Recorder(t.Context(), client, "talker")
		r := first.(*recorder)
		if r.broadcaster != nil {
			t.Error("it has queues before the first event")
		}
		first.Event(pod, corev1.EventTypeNormal, "One", "plain")
		time.Sleep(time.Second) // events are named by their time
		first.Eventf(pod, corev1.EventTypeNormal, "Two", "of %d", 3)
		time.Sleep(time.Second)
		first.AnnotatedEventf(pod, map[string]string{"k": "v"}, corev1.EventTypeWarning, "Three", "of %s", "three")
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		first.Event(pod, corev1.EventTypeNormal, "Late", "dropped")
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]corev1.Event{}
		for _, e := range list.Items {
			got[e.Reason] = e
		}
		if len(got) != 3 || got["One"].Message != "plain" || got["Two"].Message != "of 3" || got["Three"].Message != "of three" ||
			got["Three"].Annotations["k"] != "v" || got["Three"].Type != corev1.EventTypeWarning || got["One"].Source.Component != "talker" {
			t.Errorf("events are %+v", got)
		}
		second, stop := Recorder(t.Context(), client, "silent")
		stop()
		second.Eventf(pod, corev1.EventTypeNormal, "Late", "dropped")
		if second.(*recorder).broadcaster != nil {
			t.Error("it begins after its stop")
		}
	})
}
