package tokentracking

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestKeeper: the ConfigMap is made once in half an hour at most, a date that can be
// read stays, and any other is replaced.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			(&Keeper{Client: client, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		day := func() string {
			synctest.Wait()
			cm, err := maps.Get(t.Context(), ConfigMapName, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return ""
			}
			if err != nil {
				t.Fatal(err)
			}
			return cm.Data[Key]
		}
		set := func(data map[string]string) {
			t.Helper()
			if _, err := maps.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName, Namespace: metav1.NamespaceSystem}, Data: data}, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		today := time.Now().UTC().Format(time.DateOnly)
		if d := day(); d != today {
			t.Fatalf("made with %q, want %q", d, today)
		}
		set(map[string]string{Key: "2020-02-29"})
		if d := day(); d != "2020-02-29" {
			t.Errorf("a date was replaced by %q", d)
		}
		for _, data := range []map[string]string{nil, {Key: ""}, {Key: "2021-02-29"}, {Key: "yesterday"}, {"other": today}} {
			set(data)
			if d := day(); d != today {
				t.Errorf("%v became %q, want %q", data, d, today)
			}
		}
		if err := maps.Delete(t.Context(), ConfigMapName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := day(); d != "" {
			t.Errorf("made again at once, with %q", d)
		}
		time.Sleep(createEach)
		if d := day(); d == "" {
			t.Error("not made again after half an hour")
		}
		cancel()
		<-ended
	})
}

// TestRefused: what fails is tried again.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		failures := 3
		client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if failures--; failures >= 0 {
				return true, nil, errors.New("not now")
			}
			return false, nil, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		(&Keeper{Client: client, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
		if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), ConfigMapName, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}
