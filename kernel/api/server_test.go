package api_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/storage"
	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

var admin = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}

// start runs a server over a real store in dir, beside the other tests.
func start(t testing.TB, dir string) *api.Server {
	t.Helper()
	s, _ := startOver(t, dir)
	return s
}

// startOver also gives the store below.
func startOver(t testing.TB, dir string) (*api.Server, *store.Store) {
	t.Helper()
	return startWith(t, dir, nil)
}

// startWith also changes the server's configuration.
func startWith(t testing.TB, dir string, change func(*api.Config)) (*api.Server, *store.Store) {
	t.Helper()
	if t, ok := t.(*testing.T); ok && !strings.Contains(t.Name(), "/") {
		t.Parallel()
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.Open(store.Config{Dir: filepath.Join(dir, "store"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(bus.Config{}, st)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := storage.NewBackend(st, b, storage.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	cfg := api.Config{DataDir: dir, Backend: backend, Logger: log, AdvertiseAddress: "192.0.2.10"}
	if change != nil {
		change(&cfg)
	}
	s, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- st.Run(ctx) }()
	served := make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	go func() { served <- s.Run(serving) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("server: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("store: %v", err)
		}
		if err := st.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-served:
		served <- err
		t.Fatalf("server ended before it was ready: %v", err)
	}
	// Pods need one; its controller does not run here.
	c := kubernetes.NewForConfigOrDie(s.ClientConfig(admin))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return s, st
}

// overTLS is a client through the administrator's kubeconfig.
func overTLS(t testing.TB, s *api.Server) *kubernetes.Clientset {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return kubernetes.NewForConfigOrDie(cfg)
}

// asSuperAdmin is a client of system:masters.
func asSuperAdmin(t testing.TB, s *api.Server) *kubernetes.Clientset {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.SuperAdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return kubernetes.NewForConfigOrDie(cfg)
}

func kubeconfig(s *api.Server) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", s.AdminKubeconfig())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// waitFor polls until ok or ten seconds have gone.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("condition not met in time")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
