package authentication

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"pintle.dev/pintle/kernel/secretfile"
)

// issuer is one of JWTs.
type issuer struct {
	url    string
	ca     string
	key    *ecdsa.PrivateKey
	answer atomic.Pointer[http.HandlerFunc] // in place of its own; nil: its own
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if answer := i.answer.Load(); answer != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			(*answer)(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.url, i.url+"/keys")
		case "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
		}
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return i
}

// instead has the issuer answer otherwise.
func (i *issuer) instead(answer http.HandlerFunc) { i.answer.Store(&answer) }

// sign makes a token of the issuer with these claims beside the usual ones.
func (i *issuer) sign(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "k"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"iss": i.url, "aud": "pintle", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "sub": "alice"}
	for name, value := range claims {
		all[name] = value
	}
	out, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (i *issuer) token(t *testing.T, claims map[string]any) string {
	return i.sign(t, jose.ES256, i.key, claims)
}

// entry is the issuer in a file.
func (i *issuer) entry(more string) string {
	if !strings.Contains(more, "claimMappings") {
		more += "  claimMappings: {username: {claim: sub, prefix: 'login:'}, groups: {claim: groups, prefix: 'login:'}}\n"
	}
	return fmt.Sprintf("- issuer:\n    url: %s\n    audiences: [pintle]\n    certificateAuthority: |\n      %s\n%s", i.url, strings.ReplaceAll(strings.TrimSpace(i.ca), "\n", "\n      "), more)
}

func authn(entries ...string) []byte {
	if len(entries) == 0 {
		entries = []string{" []\n"}
	}
	return []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n" + strings.Join(entries, ""))
}

// await waits for a condition.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// ready waits until an issuer has been reached.
func ready(t *testing.T, w *Ways) {
	t.Helper()
	await(t, "the issuer is not reached", func() bool { return w.issuers.now.Load().healthy() == nil })
}

// Tokens of an issuer: claims become users by the file, and what is not signed by its
// key is nobody's.
func TestIssuer(t *testing.T) {
	i, own := newIssuer(t), newCA(t, "kubernetes")
	w := open(t, options(t, own, Files{Config: write(t, "authn.yaml", authn(i.entry(`  claimValidationRules: [{expression: "!has(claims.blocked)", message: is blocked}]
  userValidationRules: [{expression: "!user.username.endsWith('root')", message: root is not let in}]
`)))}))
	ready(t, w)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := i.token(t, nil)
	header, rest, _ := strings.Cut(good, ".")
	payload, _, _ := strings.Cut(rest, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k"}`)) + "." + payload + "."
	public, err := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, token, want string }{
		{"good", good, "login:alice"},
		{"with groups", i.token(t, map[string]any{"groups": []string{"a", "system:masters"}}), "login:alice login:a,login:system:masters"},
		{"of another key", i.sign(t, jose.ES256, stranger, nil), "error: failed to verify"},
		{"not signed", none, "error"},
		{"signed by the public key as a secret", i.sign(t, jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), nil), "error"},
		{"without a signature", header + "." + payload + ".", "error"},
		{"for somebody else", i.token(t, map[string]any{"aud": "other"}), "error: audience"},
		{"ended", i.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "error: expired"},
		{"of another issuer", i.token(t, map[string]any{"iss": "https://elsewhere.example.com"}), "error: invalid bearer token"},
		{"in the name of the cluster", i.token(t, map[string]any{"iss": audience, "sub": "system:serviceaccount:kube-system:default"}), "error: invalid bearer token"},
		{"blocked", i.token(t, map[string]any{"blocked": true}), "error: is blocked"},
		{"refused user", i.token(t, map[string]any{"sub": "root"}), "error: root is not let in"},
	} {
		t.Run(test.name, func(t *testing.T) { expect(t, w, request{token: test.token}, test.want) })
	}
}

// An issuer without a prefix may say anything but who the kernel's plugins are, and the
// log warns.
func TestIssuerOfSystemNames(t *testing.T) {
	i, own := newIssuer(t), newCA(t, "kubernetes")
	var log bytes.Buffer
	o := options(t, own, Files{Config: write(t, "authn.yaml", authn(i.entry("  claimMappings: {username: {claim: sub, prefix: ''}, groups: {claim: groups, prefix: ''}}\n")))})
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w := open(t, o)
	ready(t, w)
	expect(t, w, request{token: i.token(t, map[string]any{"groups": []string{"system:masters"}})}, "alice system:masters")
	expect(t, w, request{token: i.token(t, map[string]any{"sub": "system:pintle:plugin-host"})}, "error: is one of the kernel's own")
	expect(t, w, request{token: i.token(t, map[string]any{"groups": []string{"system:pintle:plugins"}})}, "error: is one of the kernel's own")
	if !strings.Contains(log.String(), "system:masters") || !strings.Contains(log.String(), i.url) {
		t.Errorf("the log says %s", log.String())
	}
}

// An issuer that hangs, answers rubbish or without end holds up nobody else, and its
// tokens are refused until it answers.
func TestBadIssuers(t *testing.T) {
	own := newCA(t, "kubernetes")
	keysOf := func(i *issuer, keys http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/keys" {
				keys(w, req)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.url, i.url+"/keys")
		}
	}
	for name, answer := range map[string]func(*issuer) http.HandlerFunc{
		"hangs": func(*issuer) http.HandlerFunc {
			return func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }
		},
		"rubbish": func(*issuer) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
		},
		"without end": func(*issuer) http.HandlerFunc { return endless },
		"another's name": func(i *issuer) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"issuer":"https://x","jwks_uri":%q}`, i.url)
			}
		},
		"keys without end": func(i *issuer) http.HandlerFunc { return keysOf(i, endless) },
		"no keys": func(i *issuer) http.HandlerFunc {
			return keysOf(i, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := newIssuer(t), newIssuer(t)
			bad.instead(answer(bad))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := New(ctx, options(t, own, Files{Config: write(t, "authn.yaml", authn(bad.entry(""), good.entry("")))}))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, w, request{token: "of-an-account"}, "system:serviceaccount:default:robot")
			await(t, "the good issuer is not reached", func() bool { return who(t, w, request{token: good.token(t, nil)}) == "login:alice" })
			expect(t, w, request{token: bad.token(t, nil)}, "error")
		})
	}
}

// A changed file is in force when its issuers answer: tokens of one that is gone are
// refused at once. One that cannot be used leaves the one before in force.
func TestIssuersReload(t *testing.T) {
	first, second, own := newIssuer(t), newIssuer(t), newCA(t, "kubernetes")
	path := write(t, "authn.yaml", authn(first.entry("")))
	w := open(t, options(t, own, Files{Config: path}))
	ready(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Follow(ctx) }()
	replace := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	old := first.token(t, nil)
	expect(t, w, request{token: old}, "login:alice")
	replace(authn(second.entry("")))
	await(t, "the second issuer is not known", func() bool { return who(t, w, request{token: second.token(t, nil)}) == "login:alice" })
	expect(t, w, request{token: old}, "error: invalid bearer token")
	failures := reloads(t, "failure")
	for n, bad := range [][]byte{
		[]byte("{"), append(authn(first.entry("")), "anonymous: {enabled: false}\n"...), authn(first.entry(""), first.entry("")),
		[]byte(strings.Replace(string(authn(first.entry(""))), first.url, audience, 1)),
	} {
		replace(bad)
		await(t, "the failure is not counted", func() bool { return reloads(t, "failure") == failures+float64(n)+1 })
		expect(t, w, request{token: second.token(t, nil)}, "login:alice")
		expect(t, w, request{token: old}, "error: invalid bearer token")
	}
	replace(authn())
	await(t, "the second issuer is still known", func() bool {
		return strings.HasPrefix(who(t, w, request{token: second.token(t, map[string]any{"n": time.Now().UnixNano()})}), "error")
	})
	if reloads(t, "success") < 2 {
		t.Error("successes are not counted")
	}
	cancel()
	<-done
}

// reloads is how often the file was read again with a result.
func reloads(t *testing.T, result string) float64 {
	t.Helper()
	found, err := testutil.GetCounterValuesFromGatherer(legacyregistry.DefaultGatherer, "apiserver_authentication_config_controller_automatic_reloads_total", nil, "status")
	if err != nil {
		t.Fatal(err)
	}
	return found[result]
}

// Files that cannot be used end the start, with what is wrong.
func TestRefusedConfigurations(t *testing.T) {
	i, own := newIssuer(t), newCA(t, "kubernetes")
	for want, content := range map[string]string{
		"want AuthenticationConfiguration": "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]\n",
		"no kind":                          "no kind \"Nothing\"",
		"unknown field":                    string(authn()) + "jwts: []\n",
		"no egress selectors":              strings.Replace(string(authn(i.entry(""))), "    audiences", "    egressSelectorType: cluster\n    audiences", 1),
		"Duplicate value":                  string(authn(i.entry(""), i.entry(""))),
		"URL scheme must be https":         strings.Replace(string(authn(i.entry(""))), "https://", "http://", 1),
		"undeclared reference":             string(authn(i.entry("  userValidationRules: [{expression: no.such, message: x}]\n"))),
		"must not overlap":                 strings.Replace(string(authn(i.entry(""))), i.url, audience, 1),
		"at most":                          strings.Repeat("#", secretfile.MaxSize+1),
	} {
		if want == "no kind" {
			content = "apiVersion: apiserver.config.k8s.io/v1\nkind: Nothing\n"
		}
		path := write(t, "authn.yaml", []byte(content))
		if _, err := New(t.Context(), options(t, own, Files{Config: path})); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The example of the configurations is one that works.
func TestExample(t *testing.T) {
	example, err := os.ReadFile("../../../../configs/examples/access/authentication.yaml")
	if err != nil {
		t.Fatal(err)
	}
	i, own := newIssuer(t), newCA(t, "kubernetes")
	content := strings.Replace(string(example), "url: https://login.example.com", fmt.Sprintf("url: %s\n    certificateAuthority: |\n      %s", i.url, strings.ReplaceAll(strings.TrimSpace(i.ca), "\n", "\n      ")), 1)
	w := open(t, options(t, own, Files{Config: write(t, "authn.yaml", []byte(content))}))
	ready(t, w)
	expect(t, w, request{token: i.token(t, map[string]any{"email": "a@example.com", "email_verified": true, "groups": []string{"devs"}})}, "login:a@example.com login:devs")
	expect(t, w, request{token: i.token(t, map[string]any{"email": "a@example.com", "email_verified": false})}, "error: has to be verified")
	expect(t, w, request{path: "/livez"}, "system:anonymous system:unauthenticated")
	expect(t, w, request{path: "/api"}, "nobody")
}
