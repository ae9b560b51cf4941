package api_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/auth/authentication"
	"pintle.dev/pintle/kernel/api/auth/pki"
)

// Over the network: certificates of another authority, headers of a front proxy, tokens
// of a file and bootstrap tokens say who one is, and nothing else of it does.
func TestWaysIn(t *testing.T) {
	dir, clients, proxies := t.TempDir(), t.TempDir(), t.TempDir()
	for _, other := range []string{clients, proxies} {
		if _, err := pki.Open(pki.Config{Dir: filepath.Join(other, "pki")}); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := startWith(t, dir, func(c *api.Config) {
		c.BootstrapTokens = true
		c.Authentication = authentication.Files{
			ClientCAs: []string{filepath.Join(clients, "pki", "ca.crt")},
			Tokens:    written(t, "tokens.csv", "static-token,carol,7,\"devs,ops\"\n"),
			FrontProxy: authentication.FrontProxy{
				CAFile: filepath.Join(proxies, "pki", "ca.crt"), AllowedNames: []string{"front"},
				UsernameHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
			},
		}
	})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-07401b", Namespace: "kube-system"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "07401b", "token-secret": "f395accd246ae52d", "usage-bootstrap-authentication": "true"},
	}
	if _, err := overTLS(t, s).CoreV1().Secrets("kube-system").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// ask gives the user, or the status.
	ask := func(cert *tls.Certificate, token string, headers map[string]string) (authenticationv1.UserInfo, int) {
		t.Helper()
		config := &tls.Config{RootCAs: s.PKI().CAPool()}
		if cert != nil {
			config.Certificates = []tls.Certificate{*cert}
		}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequest(http.MethodPost, s.URL()+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
			strings.NewReader(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for name, value := range headers {
			req.Header.Set(name, value)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		var review authenticationv1.SelfSubjectReview
		if res.StatusCode == http.StatusCreated {
			if err := json.Unmarshal(body, &review); err != nil {
				t.Fatal(err)
			}
		}
		return review.Status.UserInfo, res.StatusCode
	}
	certOf := func(dir, name string) *tls.Certificate {
		c := issue(t, dir, name, time.Hour)
		return &c
	}
	root := map[string]string{"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
	for name, test := range map[string]struct {
		cert    *tls.Certificate
		token   string
		headers map[string]string
		user    string
		group   string
		status  int
	}{
		"another authority":         {certOf(clients, "dave"), "", nil, "dave", "system:masters", 201},
		"as a plugin":               {certOf(clients, "system:pintle:plugin:deployment"), "", nil, "", "", 401},
		"own, as a plugin":          {certOf(dir, "system:pintle:plugin:deployment"), "", nil, "", "", 401},
		"a proxy":                   {certOf(proxies, "front"), "", map[string]string{"X-Remote-User": "erin", "X-Remote-Group": "devs", "X-Remote-Extra-Scopes": "some"}, "erin", "devs", 201},
		"a proxy of another name":   {certOf(proxies, "back"), "", root, "", "", 401},
		"a proxy, as itself":        {certOf(proxies, "front"), "", nil, "", "", 401},
		"headers of a client":       {certOf(clients, "dave"), "", root, "dave", "system:masters", 201},
		"headers of nobody":         {nil, "", root, "", "", 403},
		"headers beside a token":    {nil, "static-token", root, "carol", "ops", 201},
		"static token":              {nil, "static-token", nil, "carol", "devs", 201},
		"bootstrap token":           {nil, "07401b.f395accd246ae52d", nil, "system:bootstrap:07401b", "system:bootstrappers", 201},
		"bootstrap token, wrong":    {nil, "07401b.0000000000000000", nil, "", "", 401},
		"a token too large for all": {nil, strings.Repeat("x", 128<<10), nil, "", "", 401},
	} {
		got, status := ask(test.cert, test.token, test.headers)
		if status != test.status || got.Username != test.user || test.group != "" && !slices.Contains(got.Groups, test.group) {
			t.Errorf("%s: %d %+v", name, status, got)
		}
		if name == "a proxy" && !slices.Equal(got.Extra["scopes"], []string{"some"}) {
			t.Errorf("extra: %v", got.Extra)
		}
		if status == http.StatusCreated && (test.headers["X-Remote-Group"] == "system:masters") && name != "headers of a client" && slices.Contains(got.Groups, "system:masters") {
			t.Errorf("%s: became a master", name)
		}
	}
	// Other API servers are told of the authorities of clients, and not of those of proxies.
	certs := func(dir string) string {
		data, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	waitFor(t, func() bool {
		told, err := overTLS(t, s).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		return err == nil && strings.Contains(told.Data["client-ca-file"], certs(clients)) && strings.Contains(told.Data["client-ca-file"], certs(dir)) && !strings.Contains(told.Data["client-ca-file"], certs(proxies))
	})
	// A server of others asks whose tokens these are.
	review, err := overTLS(t, s).AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "static-token"}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Status.User.Username != "carol" {
		t.Errorf("review: %+v, %v", review, err)
	}
}

// An authority that is taken out of its file while a client is connected: what it
// signed is refused at the next request of that connection, and others go on.
func TestAuthorityTakenOut(t *testing.T) {
	dir, clients, later := t.TempDir(), t.TempDir(), t.TempDir()
	for _, other := range []string{clients, later} {
		if _, err := pki.Open(pki.Config{Dir: filepath.Join(other, "pki")}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(dir string) string {
		data, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	file := written(t, "clients.crt", read(clients))
	s, _ := startWith(t, dir, func(c *api.Config) { c.Authentication.ClientCAs = []string{file} })
	client := func(dir string) *http.Client {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
			RootCAs: s.PKI().CAPool(), Certificates: []tls.Certificate{issue(t, dir, "dave", time.Hour)},
		}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	ask := func(c *http.Client) int {
		t.Helper()
		res, err := c.Get(s.URL() + "/api")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	theirs, own := client(clients), client(dir)
	if ask(theirs) != http.StatusOK || ask(own) != http.StatusOK {
		t.Fatal("refused while it is there")
	}
	if err := os.Rename(written(t, "next", read(later)), file); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return ask(theirs) == http.StatusUnauthorized })
	if ask(own) != http.StatusOK {
		t.Error("the cluster's own is refused")
	}
	// The one that came is told to new connections, and taken.
	waitFor(t, func() bool { return ask(client(later)) == http.StatusOK })
}
