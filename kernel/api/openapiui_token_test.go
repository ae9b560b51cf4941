package api_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestOpenAPIPageWithToken: a browser that sends a token opens the page at the API's own
// address, over TLS; without a token it is refused there.
func TestOpenAPIPageWithToken(t *testing.T) {
	s := start(t, t.TempDir())
	token := account(t, s, "reader")
	conn := must(tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), must(rest.TLSConfigFor(rest.AnonymousClientConfig(must(kubeconfig(s)))))))
	key := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	conn.Close()
	// The browser trusts this server's key alone.
	b := startChromium(t, "--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(key[:]))

	for _, c := range []struct {
		name    string
		headers map[string]any
		want    string
	}{
		{"without a token", nil, `"code": 403`},
		{"with a wrong token", map[string]any{"Authorization": "Bearer wrong"}, `"code": 401`},
		{"with a token", map[string]any{"Authorization": "Bearer " + token}, `<option value="apis/apps/v1">`},
	} {
		t.Run(c.name, func(t *testing.T) {
			session, err := b.page()
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				method string
				params map[string]any
			}{
				{"Network.enable", nil},
				{"Network.setExtraHTTPHeaders", map[string]any{"headers": c.headers}},
				{"Page.navigate", map[string]any{"url": s.URL() + "/openapi/ui/"}},
			} {
				if step.method == "Network.setExtraHTTPHeaders" && c.headers == nil {
					continue
				}
				if _, err := b.call(session, step.method, step.params); err != nil {
					t.Fatal(err)
				}
			}
			var page string
			for deadline := time.Now().Add(time.Minute); !strings.Contains(page, c.want); time.Sleep(50 * time.Millisecond) {
				if page, err = b.text(session, "document.documentElement.outerHTML"); err != nil {
					t.Fatal(err)
				}
				if time.Now().After(deadline) {
					t.Fatalf("the page has no %q:\n%.3000s", c.want, page)
				}
			}
		})
	}
}
