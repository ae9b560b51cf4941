package openapiui

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// pinned are the files of Swagger UI as npm has them.
var pinned = map[string]string{
	"swagger-ui-bundle.js":             "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
	"swagger-ui.css":                   "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
	"swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",
	"LICENSE":                          "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
	"NOTICE":                           "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
}

func ask(t *testing.T, h http.Handler, method, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

// TestFiles: each file comes as it is pinned, compressed or not, under the policy.
func TestFiles(t *testing.T) {
	h := new(Handler)
	for name := range served {
		res, body := ask(t, h, "GET", Path+name)
		if res.StatusCode != 200 || len(body) == 0 {
			t.Errorf("%s: %s", name, res.Status)
		}
		sum := sha256.Sum256(body)
		if want := pinned[name]; want != "" && hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the pinned one: %x", name, sum)
		}
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"} {
			if p := res.Header.Get("Content-Security-Policy"); !strings.Contains(p, want) || strings.Contains(p, "unsafe") || strings.Contains(p, "*") {
				t.Errorf("%s: policy %q", name, p)
			}
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", name, res.Header)
		}
		tag := res.Header.Get("Etag")
		if again, body := ask(t, h, "GET", Path+name, "If-None-Match", tag); again.StatusCode != 304 || len(body) > 0 {
			t.Errorf("%s again: %s", name, again.Status)
		}
		packed, small := ask(t, h, "GET", Path+name, "Accept-Encoding", "br, gzip")
		if packed.Header.Get("Content-Encoding") == "" {
			continue
		}
		if whole, err := unpack(small); err != nil || string(whole) != string(body) || packed.Header.Get("Etag") == tag {
			t.Errorf("%s, compressed: %v, tag %s", name, err, packed.Header.Get("Etag"))
		}
	}
	for what, want := range map[string]string{"": "text/html; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "swagger-ui-bundle.js": "text/javascript; charset=utf-8", "swagger-ui.css": "text/css; charset=utf-8", "LICENSE": "text/plain; charset=utf-8"} {
		if res, _ := ask(t, h, "GET", Path+what); res.Header.Get("Content-Type") != want {
			t.Errorf("%q is %s", what, res.Header.Get("Content-Type"))
		}
	}
	if res, _ := ask(t, h, "GET", Path+"swagger-ui.css", "Accept-Encoding", "gzip;q=0"); res.Header.Get("Content-Encoding") != "" {
		t.Error("compressed for who does not take it")
	}
}

// TestPaths: there is nothing else below the path.
func TestPaths(t *testing.T) {
	h := new(Handler)
	for _, path := range []string{"index.html", "../v3", "page/page.js", "viewer/NOTICE", "%2e%2e/handler.go", "page.js/", "\x00"} {
		req := httptest.NewRequest("GET", Path, nil)
		req.URL.Path = Path + path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != 404 {
			t.Errorf("%q: %d", path, w.Code)
		}
	}
	for method, want := range map[string]int{"POST": 405, "PUT": 405, "TRACE": 405, "HEAD": 200} {
		if res, body := ask(t, h, method, Path); res.StatusCode != want || method == "HEAD" && len(body) > 0 {
			t.Errorf("%s: %s, %d bytes", method, res.Status, len(body))
		}
	}
	if res, _ := ask(t, h, "GET", "/openapi/ui"); res.StatusCode != 301 || res.Header.Get("Location") != "ui/" {
		t.Errorf("without the slash: %s, to %q", res.Status, res.Header.Get("Location"))
	}
}

// TestPage: the page has nothing that its policy would keep from it.
func TestPage(t *testing.T) {
	_, body := ask(t, new(Handler), "GET", Path)
	for _, bad := range []string{`\son\w+=`, `\sstyle=`, `<style`, `<script>`, `https?://`} {
		if found := regexp.MustCompile(bad).Find(body); found != nil {
			t.Errorf("the page has %q", found)
		}
	}
	_, script := ask(t, new(Handler), "GET", Path+"page.js")
	for _, bad := range []string{"innerHTML", "localStorage", "sessionStorage", "document.cookie", "eval("} {
		if strings.Contains(string(script), bad) {
			t.Errorf("the script uses %s", bad)
		}
	}
}
