package reconcile

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

const adminToken = "reconcile-on-loopback"

// newAPIServer starts etcd and kube-apiserver in a folder, and gives the server's address
// and the key of its service accounts.
func newAPIServer(t *testing.T, dir string) (host, key string) {
	t.Helper()
	etcd, err := cluster.StartEtcd(t.Context(), nil, filepath.Join(dir, "etcd"), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	key = filepath.Join(dir, "sa.key")
	tokens := filepath.Join(dir, "tokens.csv")
	writeKey(t, key)
	write(t, tokens, adminToken+",admin,admin,system:masters\n")
	port := freePorts(t, 1)[0]
	host = "https://127.0.0.1:" + port
	start(t, dir, "kube-apiserver", host+"/readyz",
		"--etcd-servers", etcd.URL, "--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", filepath.Join(dir, "pki"),
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-account-issuer", "https://reconcile.local",
		"--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-cluster-ip-range", "10.96.0.0/16", "--endpoint-reconciler-type", "none")
	return host, key
}

func upstreamConfig(host string) *rest.Config {
	cfg := &rest.Config{Host: host, BearerToken: adminToken}
	cfg.Insecure = true // it makes its own certificate, for loopback
	return cfg
}

// newUpstream starts kube-controller-manager too, with the settings that Pintle has here.
func newUpstream(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	host, key := newAPIServer(t, dir)
	port := freePorts(t, 1)[0]
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: upstream, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: %s}}]
contexts: [{name: upstream, context: {cluster: upstream, user: admin}}]
current-context: upstream
`, host, adminToken))
	start(t, dir, "kube-controller-manager", "https://127.0.0.1:"+port+"/healthz",
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", filepath.Join(dir, "manager-pki"), "--leader-elect=false",
		"--service-account-private-key-file", key, "--root-ca-file", filepath.Join(dir, "pki", "apiserver.crt"),
		"--kube-api-qps", "1000", "--kube-api-burst", "2000", "--horizontal-pod-autoscaler-sync-period", autoscalerPeriod,
		"--node-monitor-period", monitorPeriod, "--node-monitor-grace-period", monitorGrace)
	return follow(t, upstreamConfig(host))
}

// start starts a built program, which ends with the test, and waits until it answers.
func start(t *testing.T, dir, name, url string, args ...string) {
	t.Helper()
	bin, err := cluster.Bin()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cluster.StartProcess(cmd); err != nil {
		t.Fatalf("start %s: %v; make controller-goldens builds it", name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", name, tail(log.Name()))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for {
		err := answers(ctx, client, url)
		if err == nil {
			return
		}
		select {
		case <-exited:
			t.Fatalf("%s ended:\n%s", name, tail(log.Name()))
		default:
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not answer: %v\n%s", name, err, tail(log.Name()))
		}
		_ = pause(ctx, tickEvery)
	}
}

func answers(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return nil
}

func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(raw[max(0, len(raw)-4000):]))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeKey makes the key that tokens of service accounts are signed with.
func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

// freePorts are ports of loopback that the system gave.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}
