package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/kernel/revocation"
)

// asked is an API that knows tokens, and counts how often it is asked.
type asked struct {
	good            map[string]bool
	tokens, actions int
}

func (a *asked) client() *fake.Clientset {
	c := fake.NewClientset()
	c.PrependReactor("create", "tokenreviews", func(action ktesting.Action) (bool, runtime.Object, error) {
		a.tokens++
		r := action.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		if a.good[r.Spec.Token] {
			r.Status.Authenticated, r.Status.User.Username = true, r.Spec.Token
		}
		return true, r, nil
	})
	c.PrependReactor("create", "subjectaccessreviews", func(action ktesting.Action) (bool, runtime.Object, error) {
		a.actions++
		r := action.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		r.Status.Allowed = a.good[r.Spec.User]
		return true, r, nil
	})
	return c
}

// A token whose account was deleted, and a right that was taken away, end within ten
// seconds here too.
func TestAnswersAreShort(t *testing.T) {
	api := &asked{good: map[string]bool{"app": true}}
	g := newGate(Config{NodeName: "n"}, api.client())
	now := time.Now()
	g.now = func() time.Time { return now }
	h := g.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func() int {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer app")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for range 5 {
		if code := ask(); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	if api.tokens != 1 || api.actions != 1 {
		t.Errorf("the API was asked %d and %d times, want once", api.tokens, api.actions)
	}
	api.good["app"] = false
	if now = now.Add(9 * time.Second); ask() != http.StatusOK {
		t.Error("an answer is not believed for ten seconds")
	}
	if now = now.Add(2 * time.Second); ask() != http.StatusUnauthorized {
		t.Error("the token of a deleted account is still accepted after eleven seconds")
	}
	api.good["app"] = true
	if now = now.Add(11 * time.Second); ask() != http.StatusOK {
		t.Error("a token that is good again is refused")
	}
}

// Random tokens of a stranger make few questions to the API, and drive out nobody.
func TestRandomTokens(t *testing.T) {
	api := &asked{good: map[string]bool{"metrics": true, "late": true}}
	g := newGate(Config{NodeName: "n"}, api.client())
	now := time.Now()
	g.now = func() time.Time { return now }
	h := g.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(source, token string) int {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.RemoteAddr = source + ":40000"
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return w.Code
	}
	if code := ask("10.0.0.1", "metrics"); code != http.StatusOK {
		t.Fatal(code)
	}
	before, codes := api.tokens, map[int]int{}
	for i := range 5000 {
		codes[ask("10.0.0.66", fmt.Sprint("random-", i))]++
	}
	if n := api.tokens - before; n > askBurst {
		t.Errorf("5000 random tokens made %d questions, want at most %d; answers %v", n, askBurst, codes)
	}
	if codes[http.StatusOK] != 0 || codes[http.StatusTooManyRequests] < 4900 {
		t.Errorf("answers %v", codes)
	}
	if code := ask("10.0.0.2", "late"); code != http.StatusOK {
		t.Errorf("another source: %d", code)
	}
	// A thousand sources use up what there is for all.
	for i := range 1000 {
		ask(fmt.Sprintf("10.1.%d.%d", i/250, i%250), fmt.Sprint("r", i))
	}
	if n := api.tokens - before; n > askBurst+1+askInAllBurst {
		t.Errorf("%d questions in all", n)
	}
	asks := api.tokens
	if code := ask("10.0.0.1", "metrics"); code != http.StatusOK || api.tokens != asks {
		t.Errorf("who was accepted before: %d, asked again: %v", code, api.tokens != asks)
	}
	// Also when it has to be asked about again.
	now = now.Add(11 * time.Second)
	for i := range 2000 {
		ask(fmt.Sprintf("10.2.%d.%d", i/250, i%250), fmt.Sprint("s", i))
	}
	if code := ask("10.0.0.1", "metrics"); code != http.StatusOK {
		t.Errorf("who was accepted before, after ten seconds: %d", code)
	}
}

// authority signs what the tests show.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{key: key}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert = a.sign(t, template, template, key)
	return a
}

func (a authority) sign(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a authority) leaf(t *testing.T, serial int64, name string, life time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, a.cert, key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// A revoked certificate opens nothing at the node's port: not on a new connection,
// not on one that is open, and what runs on that ends. Others go on.
func TestRevokedAtTheNode(t *testing.T) {
	ca := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	guard := revocation.NewGuard(&revocation.List{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{NodeName: "n", TLS: &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, 2, "node", time.Hour)}}, ClientCAs: pool, Revoked: guard},
		Deps{Listener: l, Client: fake.NewClientset(), Logger: slog.New(slog.DiscardHandler), Healthy: func(now time.Time) (time.Time, error) { return now, nil }})
	// A stream that lasts as long as its connection, behind the same gate.
	streaming := make(chan struct{}, 8)
	g := newGate(s.cfg, s.deps.Client)
	inner := s.http.Handler
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			inner.ServeHTTP(w, r)
			return
		}
		g.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			streaming <- struct{}{}
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		})).ServeHTTP(w, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	client := func(cert tls.Certificate) *http.Client {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, ClientSessionCache: tls.NewLRUClientSessionCache(4)}}}
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	ask := func(c *http.Client) (int, error) {
		res, err := c.Get("https://" + l.Addr().String() + "/healthz")
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, err
	}
	stolen, honest := ca.leaf(t, 66, "admin", time.Hour), ca.leaf(t, 67, "admin", time.Hour)
	thief, user := client(stolen), client(honest)
	for _, c := range []*http.Client{thief, user} {
		if code, err := ask(c); code != http.StatusOK || err != nil {
			t.Fatal(code, err)
		}
	}
	open := func(cert tls.Certificate) *tls.Conn {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /stream HTTP/1.1\r\nHost: n\r\n\r\n")
		<-streaming
		return conn
	}
	stream, other := open(stolen), open(honest)
	list, _, err := guard.List().Sign(ca.cert, ca.key, time.Now(), big.NewInt(66))
	if err != nil {
		t.Fatal(err)
	}
	if !guard.Add(list) {
		t.Fatal("nothing was added")
	}
	_, _ = io.ReadAll(stream) // until the server ends it
	// On the connection that was kept, and on a resumed session.
	if code, err := ask(thief); code != http.StatusUnauthorized {
		t.Errorf("revoked: %d %v", code, err)
	}
	if code, err := ask(client(stolen)); code != http.StatusUnauthorized {
		t.Errorf("revoked, another connection: %d %v", code, err)
	}
	if code, err := ask(user); code != http.StatusOK {
		t.Errorf("another certificate of the same user: %d %v", code, err)
	}
	if err := other.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the stream of another certificate ended: %v", err)
	}
}

// A certificate that ended while its connection was open is refused.
func TestExpiredAtTheNode(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.leaf(t, 5, "admin", time.Minute).Leaf
	g := newGate(Config{NodeName: "n"}, fake.NewClientset())
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert, ca.cert}}}
	if _, code := g.authenticate(t.Context(), r); code != 0 {
		t.Fatal(code)
	}
	g.now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	if _, code := g.authenticate(t.Context(), r); code != http.StatusUnauthorized {
		t.Errorf("expired: %d", code)
	}
}
