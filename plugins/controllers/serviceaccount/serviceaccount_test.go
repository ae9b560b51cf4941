package serviceaccount

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/sdk/controller"
)

// ARC-5: a new namespace gets the account, a deleted account comes back, and a
// namespace that is going away is left alone.
func TestDefaultAccount(t *testing.T) {
	defer goleak.VerifyNone(t)
	namespace := func(name string, phase corev1.NamespacePhase) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
	}
	client := fake.NewClientset(namespace("early", corev1.NamespaceActive), namespace("going", corev1.NamespaceTerminating))
	factory := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{Name: "serviceaccount", Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	factory.Start(stop)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(stop)
		factory.Shutdown()
	}()

	appears := func(ns string) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
			return err == nil, nil
		}); err != nil {
			t.Fatalf("no account in %s", ns)
		}
	}
	appears("early")
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace("late", corev1.NamespaceActive), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	appears("late")
	// A watch of the fake does not deliver what was deleted between the list and the watch.
	watched := func(context.Context) (bool, error) {
		return slices.ContainsFunc(client.Actions(), func(a k8stesting.Action) bool { return a.Matches("watch", "serviceaccounts") }), nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 2*time.Minute, true, watched); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().ServiceAccounts("early").Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	appears("early")
	if list, _ := client.CoreV1().ServiceAccounts("going").List(ctx, metav1.ListOptions{}); len(list.Items) != 0 {
		t.Error("an account in a namespace that is going away")
	}
}
