package api_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/tokenkeys"
)

// issue signs a client certificate as an operator with the CA's key does.
func issue(t *testing.T, dir, user string, life time.Duration) tls.Certificate {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "ca.crt"), filepath.Join(dir, "pki", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, &key.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// revoke does what the command does: it writes a file.
func revoke(t *testing.T, dir string, r pki.Revocation) []pki.Pair {
	t.Helper()
	d, err := pki.OpenDirectory(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	_, renewed, err := d.Revoke(r)
	if err != nil {
		t.Fatal(err)
	}
	return renewed
}

// A certificate that is revoked while its connections are open gets nothing more over
// them, nor over new ones; its watches end. Those of others go on.
func TestRevokedCertificate(t *testing.T) {
	for _, protocol := range []string{"HTTP/2", "HTTP/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, dir)
			client := func(cert tls.Certificate) *http.Client {
				config := &tls.Config{RootCAs: s.PKI().CAPool(), Certificates: []tls.Certificate{cert}, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
				transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocol == "HTTP/2"}
				t.Cleanup(transport.CloseIdleConnections)
				return &http.Client{Transport: transport}
			}
			get := func(c *http.Client, path, token string) (int, string) {
				t.Helper()
				req, err := http.NewRequest(http.MethodGet, s.URL()+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				// A connection that was just cut shows as an error once.
				var res *http.Response
				for range 3 {
					if res, err = c.Do(req); err == nil {
						break
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.Proto != protocol && res.Proto != protocol+".0" {
					t.Fatalf("the protocol is %s", res.Proto)
				}
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return res.StatusCode, string(body)
			}
			stolen, honest := issue(t, dir, "alice", time.Hour), issue(t, dir, "alice", time.Hour)
			thief, user := client(stolen), client(honest)
			for _, c := range []*http.Client{thief, user} {
				if code, body := get(c, "/api/v1/namespaces/default/secrets", ""); code != http.StatusOK {
					t.Fatal(code, body)
				}
			}
			watch := func(c *http.Client) *bufio.Reader {
				t.Helper()
				res, err := c.Get(s.URL() + "/api/v1/configmaps?watch=1&allowWatchBookmarks=true")
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatal(res, err)
				}
				t.Cleanup(func() { res.Body.Close() })
				return bufio.NewReader(res.Body)
			}
			theirs, ours := watch(thief), watch(user)
			revoke(t, dir, pki.Revocation{Certificates: []*x509.Certificate{stolen.Leaf}})
			// The watch ends by itself: nobody closes it but the server.
			_, _ = io.Copy(io.Discard, theirs)
			if code, body := get(thief, "/api/v1/namespaces/default/secrets", ""); code != http.StatusUnauthorized {
				t.Errorf("revoked: %d %s", code, body)
			}
			if code, _ := get(client(stolen), "/api", ""); code != http.StatusUnauthorized {
				t.Errorf("revoked, another connection: %d", code)
			}
			// What is open to everybody is not open to it, and a good token does not help.
			if code, _ := get(thief, "/version", ""); code != http.StatusUnauthorized {
				t.Errorf("revoked, as nobody: %d", code)
			}
			if code, _ := get(thief, "/api", tokenOf(t, s)); code != http.StatusUnauthorized {
				t.Errorf("revoked, with a token: %d", code)
			}
			if code, body := get(user, "/api/v1/namespaces/default/secrets", ""); code != http.StatusOK {
				t.Errorf("another certificate of the user: %d %s", code, body)
			}
			if _, err := asSuperAdmin(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for line := ""; !strings.Contains(line, `"after"`); {
				var err error
				if line, err = ours.ReadString('\n'); err != nil {
					t.Fatalf("the watch of another certificate ended: %v", err)
				}
			}
		})
	}
}

// An exec session of a revoked certificate ends, whatever protocol it was upgraded to;
// one of another goes on.
func TestRevokedExec(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	place(t, s, overTLS(t, s), "web", agent(t, s).Port)
	type session struct {
		in    *io.PipeWriter
		out   *bufio.Reader
		ended chan error
	}
	exec := func(cert tls.Certificate, websocket bool) session {
		t.Helper()
		key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		cfg := &rest.Config{Host: s.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: s.PKI().CAPEM(),
			CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), KeyData: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})}}
		req := kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: "main", Command: []string{"cat"}, Stdin: true, Stdout: true}, scheme.ParameterCodec)
		var executor remotecommand.Executor
		if websocket {
			executor, err = remotecommand.NewWebSocketExecutor(cfg, "GET", req.URL().String())
		} else {
			executor, err = remotecommand.NewSPDYExecutor(cfg, "POST", req.URL())
		}
		if err != nil {
			t.Fatal(err)
		}
		stdin, in := io.Pipe()
		out, stdout := io.Pipe()
		x := session{in: in, out: bufio.NewReader(out), ended: make(chan error, 1)}
		go func() {
			x.ended <- executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout})
			_ = stdout.Close()
		}()
		t.Cleanup(func() { _ = in.Close(); _ = out.Close() })
		return x
	}
	say := func(x session, word string) {
		t.Helper()
		if _, err := fmt.Fprintln(x.in, word); err != nil {
			t.Fatal(err)
		}
		if line, err := x.out.ReadString('\n'); err != nil || !strings.HasSuffix(line, word+"\n") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	stolen, honest := issue(t, dir, "alice", time.Hour), issue(t, dir, "alice", time.Hour)
	theirs := []session{exec(stolen, false), exec(stolen, true)}
	ours := []session{exec(honest, false), exec(honest, true)}
	for _, x := range append(theirs, ours...) {
		say(x, "before")
	}
	revoke(t, dir, pki.Revocation{Certificates: []*x509.Certificate{stolen.Leaf}})
	for _, x := range theirs {
		if _, err := io.Copy(io.Discard, x.out); err != nil {
			t.Error(err)
		}
		<-x.ended // SPDY's client takes a cut connection for an end
	}
	for _, x := range ours {
		say(x, "after")
	}
}

// A revocation is in force at the first request of the next start.
func TestRevokedBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	var stolen tls.Certificate
	t.Run("first", func(t *testing.T) { start(t, dir); stolen = issue(t, dir, "alice", time.Hour) })
	revoke(t, dir, pki.Revocation{Certificates: []*x509.Certificate{stolen.Leaf}})
	t.Run("second", func(t *testing.T) {
		s := start(t, dir)
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.PKI().CAPool(), Certificates: []tls.Certificate{stolen}}}}
		res, err := c.Get(s.URL() + "/api")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Error(res.StatusCode)
		}
	})
}

// An expired certificate, and one of another authority with the name of this one, open nothing.
func TestExpiredCertificate(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	s := start(t, dir)
	if _, err := pki.Open(pki.Config{Dir: filepath.Join(other, "pki")}); err != nil {
		t.Fatal(err)
	}
	for name, cert := range map[string]tls.Certificate{"expired": issue(t, dir, "alice", -time.Minute), "foreign": issue(t, other, "alice", time.Hour)} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.PKI().CAPool(), Certificates: []tls.Certificate{cert}}}}
		res, err := c.Get(s.URL() + "/api")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
	}
}

// The administrator's certificate of the directory is revoked: a copy of it is worth
// nothing, and the kernel goes on with a new one, which it writes.
func TestRevokedAdministrator(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	copied := overTLS(t, s)
	if _, err := copied.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	before := s.PKI().Admin().Cert.SerialNumber
	if renewed := revoke(t, dir, pki.Revocation{Names: []string{"admin", "apiserver-kubelet-client", "apiserver"}}); len(renewed) != 3 {
		t.Fatalf("renewed %d", len(renewed))
	}
	waitFor(t, func() bool { return s.PKI().Admin().Cert.SerialNumber.Cmp(before) != 0 })
	if _, err := copied.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the copy is still good")
	}
	waitFor(t, func() bool {
		_, err := overTLS(t, s).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

func tokenOf(t *testing.T, s *api.Server) string {
	t.Helper()
	out, err := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out.Status.Token
}

// The key of tokens is rotated while 100 of them are in use: none is refused until the
// former key is removed, then all; the documents for others follow.
func TestTokenKeyRotation(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	shown := func() (ids []string) {
		t.Helper()
		data, err := overTLS(t, s).Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var set struct {
			Keys []struct {
				ID string `json:"kid"`
			} `json:"keys"`
		}
		if err := json.Unmarshal(data, &set); err != nil {
			t.Fatal(err)
		}
		for _, k := range set.Keys {
			ids = append(ids, k.ID)
		}
		return ids
	}
	use := func(token string) error {
		c, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL(), BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.PKI().CAPEM()}})
		if err != nil {
			return err
		}
		_, err = c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err
	}
	first := shown()[0]
	tokens := make([]string, 100)
	for i := range tokens {
		tokens[i] = tokenOf(t, s)
	}
	next, err := tokenkeys.New()
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; ; i = (i + 4) % len(tokens) {
				if err := use(tokens[i]); err != nil {
					t.Errorf("token %d: %v", i, err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	pkiDir := filepath.Join(dir, "pki")
	if err := tokenkeys.WritePrivate(filepath.Join(pkiDir, tokenkeys.NextFile), next); err != nil {
		t.Fatal(err)
	}
	second := tokenkeys.ID(&next.PublicKey)
	waitFor(t, func() bool { ids := shown(); return len(ids) == 2 && ids[0] == second && ids[1] == first })
	late := tokenOf(t, s)
	for i, token := range tokens {
		if err := use(token); err != nil {
			t.Errorf("token %d after the rotation: %v", i, err)
		}
	}
	close(stop)
	wg.Wait()
	keys, err := tokenkeys.Read(pkiDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := tokenkeys.Write(pkiDir, keys, keys.Revoke(keys.Former[0])); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return len(shown()) == 1 })
	for i, token := range tokens {
		if err := use(token); err == nil {
			t.Errorf("token %d of a removed key is accepted", i)
		}
	}
	if err := use(late); err != nil {
		t.Error(err)
	}
}

// A kernel does not start on a list of revoked certificates that is damaged: what it
// cannot read it would have to take for empty.
func TestDamagedRevocationList(t *testing.T) {
	dir := t.TempDir()
	t.Run("first", func(t *testing.T) { start(t, dir) })
	path := filepath.Join(dir, "pki", pki.RevocationFile)
	block := pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: []byte("nothing")})
	for name, data := range map[string][]byte{"empty": nil, "half": block[:20], "no list": block} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := pki.Open(pki.Config{Dir: filepath.Join(dir, "pki")})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "revoked certificates would be good again") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
