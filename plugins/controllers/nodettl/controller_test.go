package nodettl

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// The time follows the count of nodes, and steps overlap on the way back.
func TestSteps(t *testing.T) {
	a := build(fake.NewClientset(), informers.NewSharedInformerFactory(fake.NewClientset(), 0), slog.New(slog.DiscardHandler))
	t.Cleanup(a.loop.Close)
	for _, tt := range []struct {
		count int
		want  string
	}{
		{1, "0"}, {100, "0"}, {101, "15"}, {90, "15"}, {89, "0"}, {500, "15"}, {501, "30"}, {450, "30"}, {449, "15"},
		{1001, "60"}, {2000, "60"}, {2001, "300"}, {50000, "300"}, {1800, "300"}, {1799, "60"}, {0, "0"},
	} {
		for a.count < tt.count {
			a.counted(1)
		}
		for a.count > tt.count {
			a.counted(-1)
		}
		if got := a.seconds(); got != tt.want {
			t.Errorf("%d nodes: %s seconds, want %s", tt.count, got, tt.want)
		}
	}
}

// Each node has the annotation, whatever it said before, and nothing is written
// twice.
func TestAnnotates(t *testing.T) {
	defer goleak.VerifyNone(t)
	client := fake.NewClientset()
	for i := range 3 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
		if i > 0 {
			n.Annotations = map[string]string{corev1.ObjectTTLAnnotationKey: []string{"", "0", "a lot"}[i], "own": "x"}
		}
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	ctx, cancel := context.WithCancel(t.Context())
	a := build(client, shared, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	shared.Start(ctx.Done())
	go func() { done <- a.Run(ctx) }()
	deadline := time.After(2 * time.Minute)
	for right := 0; right < 3; {
		right = 0
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			if n.Annotations[corev1.ObjectTTLAnnotationKey] == "0" {
				right++
			}
		}
		select {
		case <-deadline:
			t.Fatalf("%d of 3 nodes in time", right)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	shared.Shutdown()
	patches := 0
	for _, action := range client.Actions() {
		if action.Matches("patch", "nodes") {
			patches++
		}
	}
	if patches != 2 {
		t.Errorf("%d patches, want 2", patches)
	}
}
