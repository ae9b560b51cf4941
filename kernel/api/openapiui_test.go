package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestOpenAPIPage: a browser shows the API's documents, and what a custom resource
// definition says of itself runs nothing there.
func TestOpenAPIPage(t *testing.T) {
	s := start(t, t.TempDir())
	cfg := must(kubeconfig(s))
	t.Run("who may", func(t *testing.T) {
		for _, path := range []string{"/openapi/ui", "/openapi/ui/", "/openapi/ui/page.js", "/openapi/ui/nothing"} {
			anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: must(rest.TLSConfigFor(rest.AnonymousClientConfig(cfg)))}}
			res := must(anonymous.Get(s.URL() + path))
			res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("%s for nobody: %s", path, res.Status)
			}
			// Who is somebody may discover the API, and no more is needed.
			plain := rest.CopyConfig(cfg)
			plain.Impersonate = rest.ImpersonationConfig{UserName: "plain", Groups: []string{"system:authenticated"}}
			plainly := must(rest.HTTPClientFor(plain))
			res = must(plainly.Get(s.URL() + path))
			res.Body.Close()
			if want := map[bool]int{true: 404, false: 200}[strings.HasSuffix(path, "nothing")]; res.StatusCode != want {
				t.Errorf("%s for somebody: %s", path, res.Status)
			}
		}
	})
	evil := `<script>fetch("/ran")</script><img src=x onerror='fetch("/ran")'> [link](javascript:fetch("/ran")) <a href="javascript:fetch('/ran')">a</a> ` +
		`<iframe srcdoc="<script>parent.fetch('/ran')</script>"></iframe> <form action="/ran"><button>b</button></form> ![i](/leak) <svg onload='fetch("/ran")'></svg> told-by-a-definition`
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "evils.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "evils", Singular: "evil", Kind: "Evil", ListKind: "EvilList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Description: evil,
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Description: evil, XPreserveUnknownFields: &preserve, Title: evil}},
			}}}},
		},
	}
	if _, err := apiextensions.NewForConfigOrDie(cfg).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := must(rest.HTTPClientFor(cfg))
	waitFor(t, func() bool {
		res, err := client.Get(s.URL() + "/openapi/v3/apis/example.com/v1")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return err == nil && bytes.Contains(body, []byte("told-by-a-definition"))
	})
	// As kubectl proxy does, below a path; all is unfolded, which else takes clicks.
	target := must(url.Parse(s.URL()))
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		asked = append(asked, req.URL.Path)
		mu.Unlock()
		p := &httputil.ReverseProxy{Transport: client.Transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/below")
			r.Out.Header.Set("Accept-Encoding", "identity")
			r.Out.Header.Del("If-None-Match")
		}, ModifyResponse: func(res *http.Response) error {
			if !strings.HasSuffix(res.Request.URL.Path, "/page.js") {
				return nil
			}
			body, err := io.ReadAll(res.Body)
			body = bytes.Replace(body, []byte(`docExpansion: "none"`), []byte(`docExpansion: "full", defaultModelRendering: "model"`), 1)
			body = bytes.Replace(body, []byte("defaultModelsExpandDepth: 0"), []byte("defaultModelsExpandDepth: 9, defaultModelExpandDepth: 9"), 1)
			res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			res.Header.Del("Content-Length")
			return err
		}}
		p.ServeHTTP(w, req)
	}))
	defer proxy.Close()
	open := func(document string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := chromiumCommand(ctx, t, "--virtual-time-budget=60000", "--dump-dom", proxy.URL+"/below/openapi/ui/#"+url.QueryEscape(document))
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("chromium: %v\n%s", err, said.String())
		}
		return string(out)
	}
	for document, want := range map[string]string{"apis/example.com/v1": "told-by-a-definition", "https://evil.example.com/": "core_v1"} {
		page := open(document)
		if !strings.Contains(page, want) || !strings.Contains(page, `<option value="apis/apps/v1">`) {
			_, main, _ := strings.Cut(page, "</defs>")
			t.Errorf("%s: the page lacks %q:\n%.3000s", document, want, main)
		}
		// In elements: as text, which is escaped, it may stand there.
		if bad := regexp.MustCompile(`<(script>|iframe|form|img[^<>]*onerror|[a-zA-Z][^<>]*(="javascript:| onerror=| onload=))|Try it out</button>|Authorize</`).FindString(page); bad != "" {
			t.Errorf("%s: the page has %q", document, bad)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, path := range asked {
		if !strings.HasPrefix(path, "/below/openapi/") && path != "/favicon.ico" {
			t.Errorf("the page asked for %s", path)
		}
	}
}
