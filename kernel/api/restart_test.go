package api_test

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/storage"
	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// A second start on the same directory finds the objects and the keys again,
// and the kubernetes service follows the port.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	var uid, ca string
	t.Run("first", func(t *testing.T) {
		s := start(t, dir)
		made, err := overTLS(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		uid = string(made.UID)
		ca = string(s.PKI().CAPEM())
		if fi, err := os.Stat(s.AdminKubeconfig()); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("kubeconfig: %v, %v", fi, err)
		}
	})
	t.Run("second", func(t *testing.T) {
		s := start(t, dir)
		c := overTLS(t, s)
		got, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || string(got.UID) != uid {
			t.Errorf("after restart: %v, %v", got, err)
		}
		if string(s.PKI().CAPEM()) != ca {
			t.Error("the cluster has another CA")
		}
		svc, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil || svc.Spec.Ports[0].TargetPort.IntValue() != s.Port() {
			t.Errorf("kubernetes service: %v, %v; port %d", svc, err, s.Port())
		}
	})
}

// build makes a server that does not run.
func build(t *testing.T, cfg api.Config) (*api.Server, func(context.Context) error, error) {
	t.Helper()
	st, err := store.Open(store.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	b, err := bus.New(bus.Config{}, st)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Backend, err = storage.NewBackend(st, b, storage.Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := api.New(cfg)
	return s, st.Run, err
}

// A stop that comes before the start has ended is an orderly one.
func TestStopAtOnce(t *testing.T) {
	s, run, err := build(t, api.Config{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	storing, stopStore := context.WithCancel(t.Context())
	stored := make(chan error, 1)
	go func() { stored <- run(storing) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("run: %v", err)
	}
	stopStore()
	if err := <-stored; err != nil {
		t.Errorf("store: %v", err)
	}
}

// What is wrong with a configuration is one line that names it.
func TestConfigFaults(t *testing.T) {
	taken := start(t, t.TempDir())
	for name, c := range map[string]struct {
		cfg  api.Config
		want string
	}{
		"no data directory": {api.Config{}, "set DataDir"},
		"bind address":      {api.Config{DataDir: "x", BindAddress: "here"}, `bind address "here": not an IP address`},
		"port":              {api.Config{DataDir: "x", Port: 70000}, "port 70000"},
		"service CIDR":      {api.Config{DataDir: "x", ServiceCIDR: "10.0.0.0"}, `service CIDR "10.0.0.0"`},
		"node ports":        {api.Config{DataDir: "x", NodePortRange: "a-b"}, `node port range "a-b"`},
		"port taken":        {api.Config{DataDir: t.TempDir(), Port: taken.Port()}, "choose another port"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := build(t, c.cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want a line with %q", err, c.want)
			}
		})
	}
}
