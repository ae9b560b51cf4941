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
