package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/features"
)

// gatesOf names the variable that has the feature gates of this process, as JSON: the libraries keep theirs once
// a process, and tests run beside each other.
const gatesOf = "PINTLE_TEST_FEATURES"

func TestMain(m *testing.M) {
	if text := os.Getenv(gatesOf); text != "" {
		var set map[string]string
		if err := json.Unmarshal([]byte(text), &set); err != nil {
			panic(err)
		}
		if err := features.Use(set); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// withGates runs the test first in a process with these feature gates, and reports whether this is it.
func withGates(t *testing.T, set map[string]string, environ ...string) bool {
	t.Helper()
	if os.Getenv(gatesOf) != "" {
		return true
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(append(os.Environ(), gatesOf+"="+string(text)), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("with %s: %v\n%s", text, err, out)
	}
	return false
}

// asker sends requests as the administrator, and gives what is answered.
func asker(t *testing.T, s *api.Server) func(method, path, body string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	cfg := must(kubeconfig(s))
	cfg.DisableCompression = true
	client := must(rest.HTTPClientFor(cfg))
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(method, path, body string, headers ...string) (*http.Response, []byte) {
		t.Helper()
		req := must(http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body)))
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return res, data
	}
}

// askStream asks for what does not end, and reads until it holds a word.
func askStream(t *testing.T, s *api.Server, path, word string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+path, nil))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	cfg := must(kubeconfig(s))
	cfg.DisableCompression = true
	res, err := must(rest.HTTPClientFor(cfg)).Do(req)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	var body []byte
	for piece := make([]byte, 4096); !bytes.Contains(body, []byte(word)); {
		n, err := res.Body.Read(piece)
		if body = append(body, piece[:n]...); err != nil {
			break // what is missing is seen in the body
		}
	}
	return res, body
}

// TestGatesOff: what a gate stands for is gone where it is off.
func TestGatesOff(t *testing.T) {
	if !withGates(t, map[string]string{
		"ComponentStatusz": "false", "ComponentFlagz": "false", "APIServerIdentity": "false", "StorageVersionHash": "false", "OpenAPIEnums": "false", "WatchList": "false",
	}) {
		return
	}
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.Flags = func() map[string]string { return nil } })
	ask := asker(t, s)
	for _, path := range []string{"/statusz", "/flagz"} {
		if res, _ := ask("GET", path, ""); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	if res, body := ask("GET", "/readyz?verbose", ""); res.StatusCode != http.StatusOK || bytes.Contains(body, []byte("identity-lease")) {
		t.Errorf("readyz: %s", body)
	}
	if _, body := ask("GET", "/apis/apps/v1", ""); bytes.Contains(body, []byte("storageVersionHash")) {
		t.Error("discovery has hashes of storage versions")
	}
	if _, body := ask("GET", "/openapi/v3/api/v1", ""); bytes.Contains(body, []byte(`"enum":[`)) {
		t.Error("the document has enums")
	}
	if _, body := ask("GET", "/openapi/v2", ""); bytes.Contains(body, []byte(`"enum":[`)) {
		t.Error("the document of version 2 has enums")
	}
	res, body := ask("GET", "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1", "")
	if res.StatusCode != http.StatusUnprocessableEntity || !bytes.Contains(body, []byte("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")) {
		t.Errorf("initial events: %s: %s", res.Status, body)
	}
}

// TestCBOR: objects are sent and taken in CBOR where the gate says so, by no looser rules than in JSON.
func TestCBOR(t *testing.T) {
	if !withGates(t, map[string]string{"CBORServingAndStorage": "true"}) {
		return
	}
	const (
		binary = "application/cbor"
		pods   = "/api/v1/namespaces/default/pods"
		claims = "/api/v1/namespaces/default/persistentvolumeclaims"
	)
	encode := func(v any) string { return string(must(cbor.Marshal(v))) }
	pod := func(name string, cpu any) string {
		return encode(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name}, "spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "image": "i", "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}},
		}})
	}
	s := start(t, t.TempDir())
	ask := asker(t, s)
	res, body := ask("POST", pods, pod("a", "100m"), "Content-Type", binary, "Accept", binary)
	var made corev1.Pod
	if err := cbor.Unmarshal(body, &made); err != nil || res.StatusCode != http.StatusCreated || res.Header.Get("Content-Type") != binary || made.UID == "" {
		t.Errorf("create: %s %s, %v", res.Status, body, err)
	}
	res, body = ask("GET", "/api/v1/namespaces", "", "Accept", binary)
	var list corev1.NamespaceList
	if err := cbor.Unmarshal(body, &list); err != nil || res.Header.Get("Content-Type") != binary || len(list.Items) < 4 {
		t.Errorf("list: %s, %d items, %v", res.Status, len(list.Items), err)
	}
	res, body = askStream(t, s, "/api/v1/namespaces?watch=1&fieldSelector=metadata.name=default", "default", "Accept", binary)
	if res.Header.Get("Content-Type") != "application/cbor-seq" || !bytes.Contains(body, []byte("default")) {
		t.Errorf("watch: %s, %s, %q", res.Status, res.Header, body)
	}
	apply := encode(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "applied"}, "data": map[string]any{"a": "b"}})
	if res, body := ask("PATCH", "/api/v1/namespaces/default/configmaps/applied?fieldManager=m", apply, "Content-Type", "application/apply-patch+cbor"); res.StatusCode != http.StatusCreated {
		t.Errorf("apply: %s %s", res.Status, body)
	}

	const huge = "123456789012345678901e2147483647"
	claim := func(size any) string {
		return encode(map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "c"}, "spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": size}},
		}})
	}
	deep := strings.Repeat("\x81", 100_000) + "\x01"
	for name, tt := range map[string]struct {
		method, path, contentType, body string
		code                            int
		want                            string
	}{
		"a quantity":               {"POST", pods, binary, pod("b", huge), 400, "quantity"},
		"a quantity in bytes":      {"POST", pods, binary, pod("b", []byte(huge)), 400, ""},
		"a quantity of a claim":    {"POST", claims, binary, claim(huge), 400, "quantity"},
		"a quantity in an apply":   {"PATCH", claims + "/c?fieldManager=m", "application/apply-patch+cbor", claim(huge), 400, "quantity"},
		"rubbish":                  {"POST", pods, binary, "\xff\xff\xff", 400, ""},
		"depth":                    {"POST", pods, binary, deep, 400, "max nested level"},
		"length that is not there": {"POST", pods, binary, "\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", 400, ""},
		"a key twice":              {"POST", pods, binary, "\xa2\x44kind\x43Pod\x44kind\x43Pod", 400, "duplicate"},
		"an unknown field":         {"POST", pods + "?fieldValidation=Strict", binary, encode(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x"}, "unknown": 1}), 400, "unknown field"},
		"a body":                   {"POST", pods, binary, encode(map[string]any{"a": strings.Repeat("x", 4<<20)}), 413, "limit is 3145728"},
	} {
		res, body := ask(tt.method, tt.path, tt.body, "Content-Type", tt.contentType)
		if res.StatusCode != tt.code || !bytes.Contains(body, []byte(tt.want)) {
			t.Errorf("%s: %s %.300s, want %d with %q", name, res.Status, body, tt.code, tt.want)
		}
	}

	crds := crdclient.NewForConfigOrDie(must(kubeconfig(s))).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(t.Context(), widgets(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/example.com/v1/namespaces/default/widgets"
	waitFor(t, func() bool {
		res, _ := ask("POST", path, encode(map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"size": 3}}), "Content-Type", binary)
		return res.StatusCode == http.StatusCreated
	})
	if res, body := ask("GET", path+"/w", ""); res.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"size":3`)) {
		t.Errorf("a custom resource of CBOR as JSON: %s %s", res.Status, body)
	}
}

// TestStoredAsCBOR: a custom resource that is stored in CBOR is read by a server without the gate.
func TestStoredAsCBOR(t *testing.T) {
	const name = "PINTLE_TEST_DIR"
	dir := os.Getenv(name)
	if dir == "" {
		dir = t.TempDir()
	}
	gated := withGates(t, map[string]string{"CBORServingAndStorage": "true"}, name+"="+dir)
	ask := asker(t, start(t, dir))
	const path = "/apis/example.com/v1/namespaces/default/widgets"
	if gated {
		definition, err := json.Marshal(widgets())
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Replace(string(definition), "{", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`, 1)
		if res, body := ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, "Content-Type", "application/json"); res.StatusCode != http.StatusCreated {
			t.Fatalf("%s %s", res.Status, body)
		}
		waitFor(t, func() bool {
			res, _ := ask("POST", path, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":3}}`, "Content-Type", "application/json")
			return res.StatusCode == http.StatusCreated
		})
		return
	}
	waitFor(t, func() bool {
		res, body := ask("GET", path+"/w", "")
		return res.StatusCode == http.StatusOK && bytes.Contains(body, []byte(`"size":3`))
	})
}
