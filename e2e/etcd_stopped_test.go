package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestEtcdStopped: the shipped configuration, with the certificates that pintle pki
// etcd makes, on an etcd that stops in the midst of work (SIGSTOP) for longer than
// controllers may take to end. The kernel stays, leads again and works on. Nobody
// without a certificate reads the store.
func TestEtcdStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pki := filepath.Join(dir, "etcd-pki")
	if out, err := exec.Command(binary(t, "pintle"), "pki", "etcd", pki).CombinedOutput(); err != nil || !strings.Contains(string(out), "--client-cert-auth") {
		t.Fatalf("pki etcd: %v\n%s", err, out)
	}
	file := func(name string) string { return filepath.Join(pki, name) }
	etcd, err := cluster.StartEtcdTLS(t.Context(), nil, filepath.Join(dir, "etcd"), cluster.TLS{
		CertFile: file("server.crt"), KeyFile: file("server.key"), CAFile: file("ca.crt"), ClientCertFile: file("client.crt"), ClientKeyFile: file("client.key"),
	})
	if errors.Is(err, cluster.ErrNoEtcd) {
		skip(t, cluster.ErrNoEtcd.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	stranger := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if res, err := stranger.Post(etcd.URL+"/v3/kv/range", "application/json", strings.NewReader(`{"key":"Lw=="}`)); err == nil {
		res.Body.Close()
		t.Errorf("who has no certificate is answered %s", res.Status)
	}
	key := filepath.Join(dir, "cluster.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("secret of the tests ", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	base, err := os.ReadFile("../configs/ha-etcd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("https://127.0.0.1:2379", etcd.URL, "clusterKeyFile: cluster.key", "clusterKeyFile: "+key, " etcd-pki/", " "+pki+"/").Replace(string(base))
	text += "leaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s}\n"
	config := filepath.Join(dir, "ha.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := launched(t, cluster.Options{Name: "etcd-stopped", Config: config})
	works := func(name string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			labels := map[string]string{"app": name}
			_, err := e.client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
			}}, metav1.CreateOptions{})
			return err
		})
		eventually(t, func(ctx context.Context) error {
			sets, err := e.client.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			if err == nil && len(sets.Items) != 1 {
				err = fmt.Errorf("%d replica sets of deployment %s", len(sets.Items), name)
			}
			return err
		})
	}
	works("before")
	if err := etcd.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	err = e.AwaitLog(bound(t), "this kernel leads no more")
	// Longer than the kernel waits for its controllers.
	select {
	case <-e.Exited():
		t.Error("the kernel ended while etcd stood still")
	case <-time.After(25 * time.Second):
	}
	if err := errors.Join(err, etcd.Signal(syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	works("after")
	if log := e.Log(10000); strings.Contains(log, "without TLS") {
		t.Error("it warns of plain http where there is none")
	}
}
