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

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// protobufOf is a review as Kubernetes writes it. The kind is left out with the version.
func protobufOf(t *testing.T, review interface{ Marshal() ([]byte, error) }, version schema.GroupVersion) string {
	t.Helper()
	raw, err := review.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{Raw: raw}
	if !version.Empty() {
		unknown.TypeMeta = runtime.TypeMeta{APIVersion: version.String(), Kind: "AdmissionReview"}
	}
	text, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(text)
}

// A patch of a webhook has the bounds of clients' patches, whatever hides it; every other
// answer comes through byte by byte.
func TestPatchesOfWebhooks(t *testing.T) {
	patch := func(text string) string { return fmt.Sprintf("%q", base64.StdEncoding.EncodeToString([]byte(text))) }
	deep := patch(`[{"op":"test","path":"` + strings.Repeat("/a", 257) + `","value":1}]`)
	nested := patch(`[{"op":"add","path":"/a","value":` + strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300) + `}]`)
	small := patch(`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`)
	many := func(n int) string {
		return patch("[" + strings.Repeat(`{"op":"test","path":"/kind","value":"Pod"},`, n-1) + `{"op":"remove","path":"/a"}]`)
	}
	tooDeep := []byte(`[{"op":"test","path":"` + strings.Repeat("/a", 257) + `","value":1}]`)
	v1 := &admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{Patch: tooDeep}}
	v1beta1 := &admissionv1beta1.AdmissionReview{Response: &admissionv1beta1.AdmissionResponse{Patch: tooDeep}}
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
		"created":                 {201, `{"response":{"patch":` + deep + `}}`, "points too deep"},
		"no content":              {204, `{"response":{"patch":` + deep + `}}`, "points too deep"},
		"partial content":         {206, `{"response":{"patch":` + deep + `}}`, "points too deep"},
		"another protocol":        {101, `{"response":{"patch":` + deep + `}}`, "points too deep"},
		"created, small":          {201, `{"response":{"patch":` + small + `}}`, ""},
		"YAML":                    {200, "response:\n  patch: " + deep + "\n", "points too deep"},
		"YAML of a kind":          {200, "apiVersion: admission.k8s.io/v1beta1\nkind: AdmissionReview\nresponse: {patch: " + deep + "}\n", "points too deep"},
		"YAML, small":             {200, "response: {allowed: true, patch: " + small + "}\n", ""},
		"v1beta1":                 {200, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"patch":` + deep + `}}`, "points too deep"},
		"protobuf":                {200, protobufOf(t, v1, admissionv1.SchemeGroupVersion), "points too deep"},
		"protobuf of v1beta1":     {200, protobufOf(t, v1beta1, admissionv1beta1.SchemeGroupVersion), "points too deep"},
		"protobuf of no kind":     {200, protobufOf(t, v1beta1, schema.GroupVersion{}), "points too deep"},
		"protobuf, nothing":       {200, protobufOf(t, &admissionv1.AdmissionReview{}, admissionv1.SchemeGroupVersion), ""},
		"another kind":            {200, `{"apiVersion":"v1","kind":"Status","response":{"patch":` + deep + `}}`, ""},
		"as many as there may be": {200, `{"response":{"patch":` + many(10_000) + `}}`, ""},
		"one operation more":      {200, `{"response":{"patch":` + many(10_001) + `}}`, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
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
