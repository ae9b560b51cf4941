package authentication

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

const audience = "https://kubernetes.default.svc.cluster.local"

// authority signs certificates of a test.
type testCA struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

func newCA(t *testing.T, name string) testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return testCA{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// client is a client certificate.
func (c testCA) client(t *testing.T, name string, groups ...string) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, c.cert, c.key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serviceTokens knows one token.
var serviceTokens = authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
	switch token {
	case "of-an-account":
		return &authenticator.Response{User: &user.DefaultInfo{Name: "system:serviceaccount:default:robot"}, Audiences: []string{audience}}, true, nil
	case "bad":
		return nil, false, errors.New("invalid signature")
	}
	return nil, false, nil
})

func options(t *testing.T, own testCA, files Files) Options {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(own.cert)
	return Options{
		Files: files, ClusterCA: pool, CAPEM: own.pem, Service: []authenticator.Token{serviceTokens}, Audiences: []string{audience}, Issuers: []string{audience},
		ServerID: "test", Logger: slog.New(slog.DiscardHandler),
	}
}

func open(t *testing.T, o Options) *Ways {
	t.Helper()
	w, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// request is one as it comes.
type request struct {
	path    string
	cert    *x509.Certificate
	token   string
	headers map[string]string
}

// who says whom the ways take a request for, as "user groups", or the error.
func who(t *testing.T, w *Ways, r request) string {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "https://api"+r.path, nil).WithContext(authenticator.WithAudiences(t.Context(), []string{audience}))
	req.TLS = &tls.ConnectionState{}
	if r.cert != nil {
		req.TLS.PeerCertificates = []*x509.Certificate{r.cert}
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range r.headers {
		req.Header.Add(name, value)
	}
	res, ok, err := w.Request().AuthenticateRequest(req)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !ok:
		return "nobody"
	}
	groups := slices.DeleteFunc(slices.Clone(res.User.GetGroups()), func(g string) bool { return g == user.AllAuthenticated })
	return strings.TrimSpace(res.User.GetName() + " " + strings.Join(groups, ","))
}

// expect compares: want is what the answer begins with.
func expect(t *testing.T, w *Ways, r request, want string) {
	t.Helper()
	if got := who(t, w, r); got != want && !(strings.HasPrefix(want, "error") && strings.HasPrefix(got, "error") && strings.Contains(got, strings.TrimPrefix(want, "error: "))) {
		t.Errorf("%+v: %q, want %q", r, got, want)
	}
}

// Several authorities: each one's certificates are good, as long as its file has it.
func TestAuthorities(t *testing.T) {
	own, first, second, foreign := newCA(t, "kubernetes"), newCA(t, "first"), newCA(t, "second"), newCA(t, "kubernetes")
	files := []string{write(t, "first.crt", first.pem), write(t, "second.crt", second.pem)}
	w := open(t, options(t, own, Files{ClientCAs: files}))
	of := map[string]*x509.Certificate{
		"own": own.client(t, "o"), "first": first.client(t, "f", "devs"), "second": second.client(t, "s"), "foreign": foreign.client(t, "x", "system:masters"),
	}
	expect(t, w, request{cert: of["own"]}, "o")
	expect(t, w, request{cert: of["first"]}, "f devs")
	expect(t, w, request{cert: of["second"]}, "s")
	expect(t, w, request{cert: of["foreign"]}, "error: certificate signed by unknown authority")
	// Clients choose their certificate by the names that they are told.
	if n := bytes.Count(w.Authorities().CurrentCABundleContent(), []byte("BEGIN CERTIFICATE")); n != 3 {
		t.Errorf("clients are told of %d authorities", n)
	}
	// One is taken out of its file: what verified is good no more.
	if err := os.WriteFile(files[0], newCA(t, "another").pem, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Authorities().(dynamiccertificates.ControllerRunner).RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, w, request{cert: of["first"]}, "error: certificate signed by unknown authority")
	expect(t, w, request{cert: of["second"]}, "s")
}

// No way gives an identity of the kernel's plugins; what upstream's ways give otherwise
// is the operator's to say.
func TestReservedIdentities(t *testing.T) {
	own, other, front := newCA(t, "kubernetes"), newCA(t, "other"), newCA(t, "front")
	w := open(t, options(t, own, Files{
		ClientCAs: []string{write(t, "ca.crt", other.pem)},
		Tokens: write(t, "tokens.csv", []byte(`host,system:pintle:plugin-host,1
plugin,alice,2,"devs,system:pintle:plugins"
master,root,3,system:masters
`)),
		FrontProxy: FrontProxy{CAFile: write(t, "front.crt", front.pem), UsernameHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"}},
	}))
	const refused = "error: is one of the kernel's own"
	for _, ca := range []testCA{own, other} {
		expect(t, w, request{cert: ca.client(t, "system:pintle:plugin:deployment")}, refused)
		expect(t, w, request{cert: ca.client(t, "x", "system:pintle:plugins")}, refused)
		expect(t, w, request{cert: ca.client(t, "root", "system:masters")}, "root system:masters")
	}
	expect(t, w, request{token: "host"}, refused)
	expect(t, w, request{token: "plugin"}, refused)
	expect(t, w, request{token: "master"}, "root system:masters")
	proxy := front.client(t, "proxy")
	expect(t, w, request{cert: proxy, headers: map[string]string{"X-Remote-User": "system:pintle:plugin-host"}}, refused)
	expect(t, w, request{cert: proxy, headers: map[string]string{"X-Remote-User": "a", "X-Remote-Group": "system:pintle:plugins"}}, refused)
	// The kernel's own sockets stand for them.
	o := options(t, own, Files{})
	o.Identity = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "system:pintle:plugin:x", Groups: []string{"system:pintle:plugins"}}}, true, nil
	})
	expect(t, open(t, o), request{}, "system:pintle:plugin:x system:pintle:plugins")
}

// Headers count where a proxy shows its certificate, and nowhere else.
func TestFrontProxy(t *testing.T) {
	own, front := newCA(t, "kubernetes"), newCA(t, "front")
	proxies := FrontProxy{
		CAFile: write(t, "front.crt", front.pem), AllowedNames: []string{"proxy"}, UsernameHeaders: []string{"X-Remote-User", "X-User"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraHeaderPrefixes: []string{"X-Remote-Extra-"}, UIDHeaders: []string{"X-Remote-Uid"},
	}
	w := open(t, options(t, own, Files{FrontProxy: proxies}))
	headers := map[string]string{"X-Remote-User": "alice", "X-Remote-Group": "devs"}
	root := map[string]string{"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
	expect(t, w, request{cert: front.client(t, "proxy"), headers: headers}, "alice devs")
	expect(t, w, request{cert: front.client(t, "other"), headers: root}, "error: is not in the allowed list")
	expect(t, w, request{cert: own.client(t, "proxy"), headers: root}, "proxy")
	expect(t, w, request{cert: own.client(t, "bob", "devs"), headers: root}, "bob devs")
	expect(t, w, request{headers: root}, "system:anonymous system:unauthenticated")
	expect(t, w, request{token: "of-an-account", headers: root}, "system:serviceaccount:default:robot")
	// A proxy's certificate is no client's.
	expect(t, w, request{cert: front.client(t, "proxy")}, "error: certificate signed by unknown authority")
	if c := w.FrontProxy(); c == nil || len(c.UsernameHeaders.Value()) != 2 {
		t.Error("the headers are not told, so that nobody takes them away")
	}
	for want, change := range map[string]func(*Options){
		"every client could say to be anybody": func(o *Options) {
			o.FrontProxy.CAFile, o.FrontProxy.AllowedNames = write(t, "same.crt", own.pem), nil
		},
		"one of ": func(o *Options) {
			o.ClientCAs, o.FrontProxy.AllowedNames = []string{write(t, "front.crt", front.pem)}, nil
		},
		"want the header":             func(o *Options) { o.FrontProxy.UsernameHeaders = nil },
		"is not the name of a header": func(o *Options) { o.FrontProxy.GroupHeaders = []string{"X Group"} },
		"a meaning of its own":        func(o *Options) { o.FrontProxy.UsernameHeaders = []string{"authorization"} },
		"impersonate":                 func(o *Options) { o.FrontProxy.ExtraHeaderPrefixes = []string{"impersonate-"} },
		"without clientCAFile":        func(o *Options) { o.FrontProxy.CAFile = "" },
		"no such file":                func(o *Options) { o.FrontProxy.CAFile = "/absent" },
	} {
		o := options(t, own, Files{FrontProxy: proxies})
		change(&o)
		if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Tokens of a file; files that are mistakes are refused without their tokens in the
// error.
func TestTokenFile(t *testing.T) {
	own := newCA(t, "kubernetes")
	w := open(t, options(t, own, Files{Tokens: write(t, "tokens.csv", []byte("one,alice,1\ntwo,alice,1,\"a,b\"\n"))}))
	expect(t, w, request{token: "one"}, "alice")
	expect(t, w, request{token: "two"}, "alice a,b")
	expect(t, w, request{token: "three"}, "error: invalid bearer token")
	expect(t, w, request{token: "bad"}, "error: invalid signature")
	expect(t, w, request{token: strings.Repeat("x", maxToken+1)}, "error: at most")
	expect(t, w, request{}, "system:anonymous system:unauthenticated")
	for want, content := range map[string]string{
		":2: has the token of line 1": "secret,alice,1\nsecret,bob,2\n",
		":1: has 2 fields":            "secret,alice\n",
		":1: has 5 fields":            "secret,alice,1,a,b\n",
		"no token or no user":         "secret,,1\n",
		"bare \"":                     "secret,al\"ice,1\n",
		"is longer than":              strings.Repeat("x", maxToken+1) + ",alice,1\n",
	} {
		_, err := New(t.Context(), options(t, own, Files{Tokens: write(t, "tokens.csv", []byte(content))}))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
	open := write(t, "tokens.csv", []byte("one,alice,1\n"))
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), options(t, own, Files{Tokens: open})); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("a file that everybody may write: %v", err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := options(t, own, Files{Tokens: open})
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := New(t.Context(), o); err != nil || !strings.Contains(log.String(), "set its mode to 0600") {
		t.Errorf("a file that others may read: %v, %s", err, log.String())
	}
}

// A key beside the certificates of authorities is a mistake that gives it away.
func TestAuthorityWithKey(t *testing.T) {
	own := newCA(t, "kubernetes")
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	for want, content := range map[string][]byte{"holds a PRIVATE KEY": slices.Concat(own.pem, key), "missing content": nil} {
		if _, err := New(t.Context(), options(t, own, Files{ClientCAs: []string{write(t, "ca.crt", content)}})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A webhook is asked about tokens that nobody else knows, and what it answers counts
// for a while.
func TestTokenWebhook(t *testing.T) {
	own := newCA(t, "kubernetes")
	const good = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":%q,"groups":["g"]}}}`
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"knows":       {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, good, "carol") }, "carol g"},
		"a plugin":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, good, "system:pintle:plugin:x") }, "error: is one of the kernel's own"},
		"no name":     {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, good, "") }, "error: names no user"},
		"rubbish":     {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "error"},
		"refuses":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "error"},
		"redirects":   {func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "http://127.0.0.1:1/", 307) }, "error: redirects are not followed"},
		"without end": {endless, "error: answered with more than"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/json")
				test.answer(w, req)
			}))
			t.Cleanup(server.Close)
			kubeconfig := write(t, "kubeconfig", fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: w,
 clusters: [{name: w, cluster: {server: %q}}], contexts: [{name: w, context: {cluster: w}}]}`, server.URL))
			w := open(t, options(t, own, Files{Webhook: Webhook{File: kubeconfig, Version: "v1", TTL: time.Hour}}))
			expect(t, w, request{token: "unknown"}, test.want)
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
			expect(t, w, request{token: "of-an-account"}, "system:serviceaccount:default:robot")
			expect(t, w, request{token: strings.Repeat("x", maxToken+1)}, "error: at most")
			if name == "knows" {
				expect(t, w, request{token: "unknown"}, test.want)
			}
			if asked != 1 {
				t.Errorf("asked %d times in the end", asked)
			}
		})
	}
	if _, err := New(t.Context(), options(t, own, Files{Webhook: Webhook{File: "/absent", Version: "v1"}})); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent kubeconfig: %v", err)
	}
}

// endless answers with bytes until nobody wants more.
func endless(w http.ResponseWriter, req *http.Request) {
	block := bytes.Repeat([]byte(" "), 64<<10)
	for req.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// Where everything is allowed, nobody is not let in, but where a file asks for it.
func TestNobody(t *testing.T) {
	own := newCA(t, "kubernetes")
	file := func(anonymous string) string {
		return write(t, "authn.yaml", []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"+anonymous))
	}
	for name, test := range map[string]struct {
		config       string
		everybodyMay bool
		want, health string
	}{
		"default":              {"", false, "system:anonymous system:unauthenticated", "system:anonymous system:unauthenticated"},
		"everything allowed":   {"", true, "nobody", "nobody"},
		"off":                  {file("anonymous: {enabled: false}\n"), false, "nobody", "nobody"},
		"on":                   {file("anonymous: {enabled: true}\n"), true, "system:anonymous system:unauthenticated", "system:anonymous system:unauthenticated"},
		"for a path":           {file("anonymous: {enabled: true, conditions: [{path: /livez}]}\n"), false, "nobody", "system:anonymous system:unauthenticated"},
		"the file has no word": {file("jwt: []\n"), false, "system:anonymous system:unauthenticated", "system:anonymous system:unauthenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, own, Files{Config: test.config})
			o.EverybodyMay = test.everybodyMay
			w := open(t, o)
			expect(t, w, request{path: "/api"}, test.want)
			expect(t, w, request{path: "/livez"}, test.health)
			expect(t, w, request{path: "/livez", token: "bad"}, "error: invalid signature")
			expect(t, w, request{path: "/api", cert: own.client(t, "alice")}, "alice")
		})
	}
}
