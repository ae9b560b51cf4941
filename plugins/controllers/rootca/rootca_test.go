package rootca

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/cert"

	"pintle.dev/pintle/sdk/controller"
)

func certificate(t *testing.T) string {
	t.Helper()
	pem, _, err := cert.GenerateSelfSignedCertKey("api.local", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem)
}

func TestBundle(t *testing.T) {
	pem := certificate(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte(pem), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		config any
		want   string // of the error, empty for none
	}{
		"inline":      {Config{CABundle: pem}, ""},
		"file":        {Config{CAFile: file}, ""},
		"neither":     {Config{}, "set caBundle (PEM) or caFile (path)"},
		"both":        {Config{CABundle: pem, CAFile: file}, "leave one out"},
		"no file":     {Config{CAFile: file + "x"}, "no such file"},
		"no PEM":      {Config{CABundle: "hello"}, "valid RSA or ECDSA certificates"},
		"unknown key": {map[string]string{"caBundel": pem}, "caBundel"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := json.Marshal(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			got, err := readBundle(config)
			if tc.want == "" && (err != nil || got != pem) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// Each active namespace has the ConfigMap, and it is put right when changed,
// stripped of its description, or deleted.
func TestPublish(t *testing.T) {
	defer goleak.VerifyNone(t)
	pem := certificate(t)
	config, err := json.Marshal(Config{CABundle: pem})
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}},
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory, Config: config})
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
	maps := client.CoreV1().ConfigMaps("a")
	right := func(when string) *corev1.ConfigMap {
		t.Helper()
		var cm *corev1.ConfigMap
		if err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			var err error
			cm, err = maps.Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil && len(cm.Data) == 1 && cm.Data["ca.crt"] == pem &&
				strings.HasPrefix(cm.Annotations["kubernetes.io/description"], "Contains a CA bundle"), nil
		}); err != nil {
			t.Fatalf("%s: %v", when, cm)
		}
		return cm
	}
	cm := right("at first").DeepCopy()
	cm.Data["other"], cm.Annotations = "x", nil
	if _, err := maps.Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	right("after a change")
	if err := maps.Delete(ctx, "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	right("after a deletion")
	if list, _ := client.CoreV1().ConfigMaps("b").List(ctx, metav1.ListOptions{}); len(list.Items) != 0 {
		t.Error("published in a namespace that is going away")
	}
}
