package dynamic

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// answering is a webhook, below the client's bounds.
type answering struct {
	code int
	body io.Reader
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.code, Body: io.NopCloser(a.body)}, nil
}

// A patch of a webhook has the bounds of clients' patches, whatever hides it; every other
// answer comes through byte by byte.
func TestPatchesOfWebhooks(t *testing.T) {
	patch := func(text string) string { return fmt.Sprintf("%q", base64.StdEncoding.EncodeToString([]byte(text))) }
	deep := patch(`[{"op":"test","path":"` + strings.Repeat("/a", 257) + `","value":1}]`)
	nested := patch(`[{"op":"add","path":"/a","value":` + strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300) + `}]`)
	small := patch(`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`)
	for name, tt := range map[string]struct {
		code   int
		answer string
		want   string // empty: it comes through
	}{
		"small":                   {200, `{"response":{"allowed":true,"patch":` + small + `}}`, ""},
		"points too deep":         {200, `{"response":{"allowed":true,"patch":` + deep + `}}`, "the answer of the webhook: the JSON patch points too deep"},
		"nests too deep":          {200, `{"response":{"patch":` + nested + `}}`, "the answer of the webhook: the patch nests too deep"},
		"behind another case":     {200, `{"response":{"patch":` + deep + `,"Patch":` + small + `}}`, "points too deep"},
		"another case alone":      {200, `{"response":{"PATCH":` + deep + `}}`, ""}, // which the machinery does not read
		"the last of two":         {200, `{"response":{"patch":` + small + `,"patch":` + deep + `}}`, "points too deep"},
		"the first of two":        {200, `{"response":{"patch":` + deep + `,"patch":` + small + `}}`, ""},
		"an escaped name":         {200, `{"response":{"p\u0061tch":` + deep + `}}`, "points too deep"},
		"no review":               {200, `{"patch":` + deep + `}`, ""},
		"no base64":               {200, `{"response":{"patch":"%"}}`, ""},
		"no JSON":                 {200, `<html>`, ""},
		"nothing":                 {200, "", ""},
		"an error":                {500, `{"response":{"patch":` + deep + `}}`, ""},
		"an answer of conversion": {200, `{"response":{"convertedObjects":[` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := boundPatches(answering{tt.code, strings.NewReader(tt.answer)}).RoundTrip(&http.Request{})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != tt.answer || res.StatusCode != tt.code {
				t.Errorf("%d %q, %v", res.StatusCode, body, err)
			}
		})
	}
	cut := errors.New("cut off")
	if _, err := boundPatches(answering{200, iotest.ErrReader(cut)}).RoundTrip(&http.Request{}); !errors.Is(err, cut) {
		t.Errorf("an answer that ends early: %v", err)
	}
}

// The clients of webhooks have the bound behind that of the answer's length.
func TestClientsBoundPatches(t *testing.T) {
	plain := func(string) (*rest.Config, error) { return &rest.Config{}, nil }
	clients := BoundedClients(nil, boundPatches)(&webhookutil.AuthenticationInfoResolverDelegator{ClientConfigForFunc: plain})
	cfg, err := clients.ClientConfigFor("example.com:443")
	if err != nil {
		t.Fatal(err)
	}
	res, err := cfg.WrapTransport(answering{200, strings.NewReader(strings.Repeat(" ", maxAnswer+1))}).RoundTrip(&http.Request{})
	if err == nil {
		res.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "the webhook answered with more than") {
		t.Errorf("an endless answer: %v", err)
	}
}
