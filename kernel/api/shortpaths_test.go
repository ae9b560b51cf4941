package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What goes the short way is named exactly: a part of a pod, a list of pods, or another
// resource with like words in its path does not.
func TestWritesPod(t *testing.T) {
	const pods = "/api/v1/namespaces/a/pods"
	for _, c := range []struct {
		method, target, body string
		want                 bool
	}{
		{http.MethodPost, pods, "{}", true},
		{http.MethodPost, pods, "", false},
		{http.MethodPost, pods + "/", "{}", false},
		{http.MethodPost, pods + "/x", "{}", false},
		{http.MethodPost, pods + "/x/status", "{}", false},
		{http.MethodPost, pods + "/x/binding", "{}", false},
		{http.MethodPatch, pods + "/x/status", "{}", true},
		{http.MethodPatch, pods + "/x/status?fieldManager=m", "{}", true},
		{http.MethodPatch, pods + "/x/status?timeout=1s", "{}", false},
		{http.MethodPatch, pods + "/x/status", "", false},
		{http.MethodPatch, pods + "/x", "{}", false},
		{http.MethodPatch, pods + "/status", "{}", false},
		{http.MethodPatch, pods + "//status", "{}", false},
		{http.MethodPatch, pods + "/x/y/status", "{}", false},
		{http.MethodPatch, pods + "/x/status/", "{}", false},
		{http.MethodPatch, "/api/v1/namespaces//pods/x/status", "{}", false},
		{http.MethodPatch, "/api/v1/namespaces/a/services/x/status", "{}", false},
		{http.MethodPatch, "/apis/v1/namespaces/a/pods/x/status", "{}", false},
		{http.MethodPatch, "/api/v1/pods/x/status", "{}", false},
		{http.MethodDelete, pods + "/x", "", true},
		{http.MethodDelete, pods + "/x", "{}", true},
		{http.MethodDelete, pods, "", false},
		{http.MethodDelete, pods + "/", "", false},
		{http.MethodDelete, pods + "/x/status", "", false},
		{http.MethodDelete, pods + "/x?timeoutSeconds=1", "", false},
		{http.MethodPut, pods + "/x/status", "{}", false},
		{http.MethodGet, pods + "/x", "", false},
		{http.MethodPatch, pods + "/x/status", strings.Repeat("x", largestShort+1), false},
	} {
		req := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
		req.ProtoMajor = 2
		if got := writesPod(req); got != c.want {
			t.Errorf("%s %s with %d bytes: %t, want %t", c.method, c.target, len(c.body), got, c.want)
		}
		req.ProtoMajor = 1
		if writesPod(req) {
			t.Errorf("%s %s by HTTP/1 goes the short way", c.method, c.target)
		}
		req = req.WithContext(context.WithValue(req.Context(), socketKey{}, true))
		if got := writesPod(req); got != c.want {
			t.Errorf("%s %s by HTTP/1 over a plugin's socket with %d bytes: %t, want %t", c.method, c.target, len(c.body), got, c.want)
		}
		req.ProtoMajor, req.ContentLength = 2, -1
		if writesPod(req) {
			t.Errorf("%s %s of a length that is not told goes the short way", c.method, c.target)
		}
	}
}
