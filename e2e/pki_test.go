package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/pintle/e2e/cluster"
)

// clientOf is a client by a copy of a kubeconfig.
func clientOf(t *testing.T, data []byte) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(cfg)
}

func mayList(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	return err
}

// listedPKI is what pintle pki list prints as JSON.
type listedPKI struct {
	Certificates []struct{ Name, Serial, State string }
	TokenKeys    []struct{ ID, State string }
}

func (l listedPKI) key(state string) string {
	for _, k := range l.TokenKeys {
		if k.State == state {
			return k.ID
		}
	}
	return ""
}

func listPKI(t *testing.T, data string) (out listedPKI) {
	t.Helper()
	if err := json.Unmarshal([]byte(pintle(t, 0, "pki", "list", "--data", data, "-o", "json")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A stolen kubeconfig ends by one command, beside a kernel that runs: its requests and
// its watch, also after a start. The administrator's own file goes on. Keys of tokens are
// rotated, and former ones ended.
func TestPKICommands(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, "", data)
	file := filepath.Join(data, "admin.kubeconfig")
	copied, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	thief := clientOf(t, copied)
	if err := mayList(bound(t), thief); err != nil {
		t.Fatal(err)
	}
	w, err := thief.CoreV1().Secrets("").Watch(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	contains(t, pintle(t, 0, "pki", "revoke", "admin", "--data", data), "certificate of kubernetes-admin revoked: serial ", "admin renewed: serial ", "in force\n")
	for range w.ResultChan() { // until the server ends it
	}
	if err := mayList(bound(t), thief); !apierrors.IsUnauthorized(err) {
		t.Errorf("the copy is still good: %v", err)
	}
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := mayList(bound(t), clientOf(t, now)); err != nil {
		t.Errorf("the administrator's own: %v", err)
	}

	// A renewed one takes its place, the former is good until it is revoked, by its file.
	former := filepath.Join(t.TempDir(), "former.kubeconfig")
	write(t, former, string(now))
	contains(t, pintle(t, 0, "pki", "renew", "--all", "--data", data), "admin renewed: serial ", "apiserver renewed: serial ", "in force\n")
	if err := mayList(bound(t), clientOf(t, now)); err != nil {
		t.Errorf("a former certificate: %v", err)
	}
	pintle(t, 0, "pki", "revoke", "--file", former, "--data", data)
	if err := mayList(bound(t), clientOf(t, now)); !apierrors.IsUnauthorized(err) {
		t.Errorf("a revoked former certificate: %v", err)
	}
	if now, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	admin := clientOf(t, now)

	// Tokens.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "app"}}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(bound(t), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token := func() string {
		t.Helper()
		out, err := admin.CoreV1().ServiceAccounts("default").CreateToken(bound(t), "app", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Status.Token
	}
	use := func(token string) error {
		cfg, err := clientcmd.RESTConfigFromKubeConfig(now)
		if err != nil {
			return err
		}
		c := kubernetes.NewForConfigOrDie(&rest.Config{Host: cfg.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: cfg.CAData}})
		_, err = c.AuthenticationV1().SelfSubjectReviews().Create(bound(t), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err
	}
	before := token()
	contains(t, pintle(t, 0, "pki", "rotate", "sa", "--data", data), "new token key ", "in force\n")
	after := token()
	if err := errors.Join(use(before), use(after)); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	listed := listPKI(t, data)
	contains(t, pintle(t, 1, "pki", "revoke", "--token-key", listed.key("signing"), "--data", data), "rotate it first")
	pintle(t, 0, "pki", "revoke", "--token-key", listed.key("verifying"), "--data", data)
	if err := use(before); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token of a revoked key: %v", err)
	}
	if err := use(after); err != nil {
		t.Error(err)
	}

	// Offline, and over a start.
	if err := e.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	contains(t, pintle(t, 0, "pki", "rotate", "sa", "--data", data), "no kernel runs there: in force from its next start on")
	e = minimal(t, "", data)
	for _, kubeconfig := range [][]byte{copied} {
		cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Host = e.cfg.Host
		if err := mayList(bound(t), kubernetes.NewForConfigOrDie(cfg)); !apierrors.IsUnauthorized(err) {
			t.Errorf("a revoked certificate after a start: %v", err)
		}
	}
	states := map[string]int{}
	after2 := listPKI(t, data)
	for _, c := range after2.Certificates {
		states[c.State]++
	}
	if states["revoked"] != 2 || states["current"] != 5 || after2.key("signing") == listed.key("signing") {
		t.Errorf("%v, %+v", states, after2.TokenKeys)
	}
	// What is damaged keeps the kernel from a start, in one line that names it.
	if err := e.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	crl := filepath.Join(data, "pki", "ca.crl")
	if err := os.WriteFile(crl, []byte("-----BEGIN X509 CRL-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := serve(t, faulty{data: data})
	<-a.exited
	if a.err == nil {
		t.Error("a kernel starts on a damaged list")
	}
	contains(t, a.stderr.String(), crl, "revoked certificates would be good again")
	contains(t, pintle(t, 1, "pki", "revoke", "admin", "--data", data), crl)
}

// The API server's own certificate for nodes was stolen: with it every container of the
// node is open. Revoked, it opens nothing and what it had open ends; the API server has
// another, and logs and exec go on.
func TestStolenNodeAccess(t *testing.T) {
	t.Parallel()
	needContainers(t)
	e := private(t, cluster.Options{Name: "stolen", Config: "configs/standalone.yaml"})
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: `+box+`, args: [wait]}]}
`)
	pod := e.awaitPod(t, ns, "web", isReady)
	node, err := e.client.CoreV1().Nodes().Get(bound(t), pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(cluster.NodeIP, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	file := filepath.Join(e.Data, "pki", "apiserver-kubelet-client")
	stolen, err := tls.LoadX509KeyPair(file+".crt", file+".key")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, n, a string) (net.Conn, error) { return e.Network.Dial(ctx, n, a) },
		// Whom the thief speaks to is not what is asked here.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{stolen}}, //nolint:gosec // see above
	}}
	defer client.CloseIdleConnections()
	ask := func(path string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(bound(t), http.MethodGet, "https://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	if res := ask("/pods"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	follow := ask("/containerLogs/" + ns + "/web/c?follow=true")
	if follow.StatusCode != http.StatusOK {
		t.Fatal(follow.Status)
	}
	pintle(t, 0, "pki", "revoke", "apiserver-kubelet-client", "--data", e.Data)
	_, _ = io.Copy(io.Discard, follow.Body) // until the node ends it
	if res := ask("/pods"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the stolen certificate: %s", res.Status)
	}
	contains(t, e.kubectl(t, "-n", ns, "logs", "web"), "started")
	contains(t, e.kubectl(t, "-n", ns, "exec", "web", "--", "/box", "env"), "PATH=")
}

// Kernels on one etcd: what is revoked beside one is refused by the other within seconds,
// and a token key that is rotated beside one signs at both.
func TestPKIOfTwoKernels(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)
	data := t.TempDir()
	first := s.launch(t, "pki1", filepath.Join(data, "1"), cluster.NodeIP, 0)
	defer end(t, first)
	second := s.launch(t, "pki2", filepath.Join(data, "2"), secondIP, 0)
	defer end(t, second)
	// The first one's administrator is one at the second, too.
	swapped := *first.cfg
	swapped.Host = second.cfg.Host
	thief, err := kubernetes.NewForConfig(&swapped)
	if err != nil {
		t.Fatal(err)
	}
	if err := mayList(bound(t), thief); err != nil {
		t.Fatal(err)
	}
	pintle(t, 0, "pki", "revoke", "admin", "--data", filepath.Join(data, "1"))
	eventually(t, func(ctx context.Context) error {
		if err := mayList(ctx, thief); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("at the other kernel: %w", err)
		}
		return nil
	})
	before := listPKI(t, filepath.Join(data, "2")).key("signing")
	contains(t, pintle(t, 0, "pki", "rotate", "sa", "--data", filepath.Join(data, "2")), "in force")
	now := listPKI(t, filepath.Join(data, "2")).key("signing")
	if now == before {
		t.Fatal("the key did not change")
	}
	eventually(t, func(ctx context.Context) error {
		if l := listPKI(t, filepath.Join(data, "1")); l.key("signing") != now || l.key("verifying") != before {
			return fmt.Errorf("the other kernel: %+v", l.TokenKeys)
		}
		return nil
	})
	text, err := second.client.Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(bound(t))
	if err != nil || strings.Count(string(text), `"kid"`) != 2 {
		t.Errorf("%s, %v", text, err)
	}
}
