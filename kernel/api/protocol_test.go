package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/features"
)

// TestProtocol: what clients say of how they want to be answered is heard as kube-apiserver hears it.
func TestProtocol(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
		c.Flags = func() map[string]string { return map[string]string{"api.port": "6443"} }
	})
	ask := asker(t, s)
	maps := overTLS(t, s).CoreV1().ConfigMaps("default")
	for i := range 200 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%03d", i)}, Data: map[string]string{"a": strings.Repeat("x", 1000)}}
		if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const (
		path     = "/api/v1/namespaces/default/configmaps"
		document = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		js       = "application/json"
	)
	object := func(name, more string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}` + more + `}`
	}
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		header                   map[string]string // what the answer's headers hold
		want                     string
	}{
		{name: "CBOR is off", path: path, headers: []string{"Accept", "application/cbor"}, code: 406, want: "application/vnd.kubernetes.protobuf"},
		{name: "CBOR among others", path: path + "/m001", headers: []string{"Accept", "application/cbor, application/json;q=0.5"}, code: 200, header: map[string]string{"Content-Type": js}},
		{name: "CBOR sent", method: "POST", path: path, body: "\xa0", headers: []string{"Content-Type", "application/cbor"}, code: 415, want: "accepted media types include: application/json, application/yaml"},
		{name: "CBOR applied", method: "PATCH", path: path + "/x?fieldManager=m", body: "\xa0", headers: []string{"Content-Type", "application/apply-patch+cbor"}, code: 415},
		{name: "protobuf", path: path + "?limit=1", headers: []string{"Accept", "application/vnd.kubernetes.protobuf"}, code: 200, header: map[string]string{"Content-Type": "application/vnd.kubernetes.protobuf"}, want: "k8s\x00"},
		{name: "small answers are not compressed", path: path + "/m001", headers: []string{"Accept-Encoding", "gzip"}, code: 200, header: map[string]string{"Content-Encoding": ""}},
		{name: "a list of names", path: path + "?limit=1", headers: []string{"Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}, code: 200, want: `"kind":"PartialObjectMetadataList"`},

		{name: "aggregated discovery", path: "/apis", headers: []string{"Accept", document + ",application/json"}, code: 200, header: map[string]string{"Content-Type": document, "Vary": "Accept"}, want: `"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"`},
		{name: "of the core group", path: "/api", headers: []string{"Accept", document}, code: 200, want: `"resource":"pods"`},
		{name: "its beta is gone", path: "/apis", headers: []string{"Accept", strings.Replace(document, "v=v2", "v=v2beta1", 1) + ",application/json"}, code: 200, want: `"kind":"APIGroupList"`},
		{name: "of a group", path: "/apis/apps/v1", code: 200, want: `"storageVersionHash":"`},

		{name: "a hash that is old", path: "/openapi/v3/apis/apps/v1?hash=OLD", code: 301, header: map[string]string{"Location": "/openapi/v3/apis/apps/v1?hash="}},
		{name: "protobuf of OpenAPI v2", path: "/openapi/v2", headers: []string{"Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}, code: 200, header: map[string]string{"Content-Type": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"}},
		{name: "protobuf of OpenAPI v3", path: "/openapi/v3/api/v1", headers: []string{"Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"}, code: 200, header: map[string]string{"Content-Type": "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"}},

		{name: "strict", method: "POST", path: path + "?fieldValidation=Strict", body: object("v", `,"dat":{},"data":{"a":"1","a":"2"}`), headers: []string{"Content-Type", js}, code: 400, want: `strict decoding error: unknown field \"dat\", duplicate field \"data.a\"`},
		{name: "with a warning", method: "POST", path: path + "?fieldValidation=Warn&dryRun=All", body: object("v", `,"dat":{}`), headers: []string{"Content-Type", js}, code: 201, header: map[string]string{"Warning": `299 - "unknown field \"dat\""`}},
		{name: "by default", method: "POST", path: path + "?dryRun=All", body: object("v", `,"dat":{}`), headers: []string{"Content-Type", js}, code: 201, header: map[string]string{"Warning": `unknown field`}},
		{name: "ignored", method: "POST", path: path + "?fieldValidation=Ignore&dryRun=All", body: object("v", `,"dat":{}`), headers: []string{"Content-Type", js}, code: 201, header: map[string]string{"Warning": ""}},
		{name: "another level", method: "POST", path: path + "?fieldValidation=Never", body: object("v", ""), headers: []string{"Content-Type", js}, code: 422, want: `supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"`},

		{name: "a list that is newer than all", path: path + "?resourceVersion=99999999&resourceVersionMatch=NotOlderThan", code: 504, want: "Too large resource version"},
		{name: "an exact version of nothing", path: path + "?resourceVersionMatch=Exact", code: 422, want: "resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{name: "initial events of a list", path: path + "?sendInitialEvents=true", code: 422, want: "sendInitialEvents is forbidden for list"},

		{name: "another UID", method: "DELETE", path: path + "/m001", body: `{"preconditions":{"uid":"a"}}`, headers: []string{"Content-Type", js}, code: 409, want: "the UID in the precondition (a) does not match the UID in record"},
		{name: "another version", method: "DELETE", path: path + "/m001", body: `{"preconditions":{"resourceVersion":"1"}}`, headers: []string{"Content-Type", js}, code: 409, want: "the ResourceVersion in the precondition (1) does not match"},
		{name: "unsafe, of what can be read", method: "DELETE", path: path + "/m001", body: `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, headers: []string{"Content-Type", js}, code: 409, want: "unsafe deletion is not allowed because the object is decodable"},
		{name: "unsafe, with a time", method: "DELETE", path: path + "/m001", body: `{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"gracePeriodSeconds":0}`, headers: []string{"Content-Type", js}, code: 422, want: "cannot be set together with .gracePeriodSeconds"},
		{name: "unsafe, of many", method: "DELETE", path: path + "?ignoreStoreReadErrorWithClusterBreakingPotential=true", code: 422, want: "is not allowed with DELETECOLLECTION"},

		{name: "statusz", path: "/statusz", code: 200, want: "Emulation version"},
		{name: "statusz as an object", path: "/statusz", headers: []string{"Accept", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"}, code: 200, want: `"kind":"Statusz"`},
		{name: "flagz", path: "/flagz", code: 200, want: "api.port"},
		{name: "flagz as an object", path: "/flagz", headers: []string{"Accept", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"}, code: 200, want: `"api.port":"6443"`},

		{name: "many requirements", path: path + "?labelSelector=" + strings.TrimSuffix(strings.Repeat("a,", 20_000), ","), code: 200, want: `"items":[]`},
		{name: "many values", path: path + "?labelSelector=" + url.QueryEscape("a in ("+strings.TrimSuffix(strings.Repeat("v,", 20_000), ",")+")"), code: 200, want: `"items":[]`},
		{name: "a selector that does not end", path: path + "?labelSelector=" + url.QueryEscape("a in ("), code: 400, want: "unable to parse requirement"},
		{name: "a value that is too long", path: path + "?labelSelector=a%3D" + strings.Repeat("v", 64), code: 400, want: "must be no more than 63"},
		{name: "a key that is too long", path: path + "?labelSelector=" + strings.Repeat("k", 64), code: 400, want: "must be no more than 63"},
		{name: "a selector of 900 KB", path: path + "?labelSelector=" + strings.TrimSuffix(strings.Repeat("a,", 450_000), ","), code: 200, want: `"items":[]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = "GET"
			}
			res, body := ask(method, tt.path, tt.body, tt.headers...)
			if res.StatusCode != tt.code || !bytes.Contains(body, []byte(tt.want)) {
				t.Errorf("%s %.400s, want %d with %q", res.Status, body, tt.code, tt.want)
			}
			for name, want := range tt.header {
				if got := strings.Join(res.Header.Values(name), ","); !strings.Contains(got, want) || want == "" && got != "" {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}

	t.Run("initial events", func(t *testing.T) {
		const end = `"annotations":{"k8s.io/initial-events-end":"true"}`
		query := "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Dm001"
		res, body := askStream(t, s, path+query, end)
		if res.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(end)) || !bytes.Contains(body, []byte(`"name":"m001"`)) {
			t.Errorf("%s %.400s, want %s", res.Status, body, end)
		}
	})
	t.Run("compression", func(t *testing.T) {
		_, plain := ask("GET", path, "")
		res, packed := ask("GET", path, "", "Accept-Encoding", "gzip")
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil || res.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(res.Header.Get("Vary"), "Accept-Encoding") {
			t.Fatalf("%v: %v", res.Header, err)
		}
		unpacked, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(plain, unpacked) || len(packed) >= len(plain) {
			t.Errorf("%d bytes are sent as %d, and read as %d (%v)", len(plain), len(packed), len(unpacked), err)
		}
	})
	t.Run("unchanged documents", func(t *testing.T) {
		var index struct {
			Paths map[string]struct {
				ServerRelativeURL string `json:"serverRelativeURL"`
			}
		}
		_, body := ask("GET", "/openapi/v3", "")
		if err := json.Unmarshal(body, &index); err != nil {
			t.Fatal(err)
		}
		hashed := index.Paths["apis/apps/v1"].ServerRelativeURL
		for path, accept := range map[string]string{"/apis": document, "/api": document, "/openapi/v2": "*/*", "/openapi/v3": "*/*", hashed: "*/*"} {
			var res *http.Response
			waitFor(t, func() bool { // the server may still be at its own registrations
				res, _ = ask("GET", path, "", "Accept", accept)
				tag := res.Header.Get("Etag")
				again, body := ask("GET", path, "", "Accept", accept, "If-None-Match", tag)
				return tag != "" && again.StatusCode == http.StatusNotModified && len(body) == 0
			})
			if path == hashed && !strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s may not be kept: %v", path, res.Header)
			}
		}
	})
	t.Run("chunks of one version", func(t *testing.T) {
		seen, next, versions := sets.New[string](), "", sets.New[string]()
		for {
			list, err := maps.List(t.Context(), metav1.ListOptions{Limit: 33, Continue: next})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list.Items {
				if seen.Has(m.Name) {
					t.Errorf("%s comes twice", m.Name)
				}
				seen.Insert(m.Name)
			}
			versions.Insert(list.ResourceVersion)
			if next = list.Continue; next == "" {
				break
			}
			// What is made meanwhile is not in it.
			late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("z%d", seen.Len())}}
			if _, err := maps.Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if seen.Len() != 200 || versions.Len() != 1 {
			t.Errorf("%d objects of %d versions", seen.Len(), versions.Len())
		}
	})
	t.Run("rights", func(t *testing.T) {
		cfg := rest.AnonymousClientConfig(must(kubeconfig(s)))
		client := must(rest.HTTPClientFor(cfg))
		for _, path := range []string{"/statusz", "/flagz", "/metrics", "/openapi/v3", "/debug/flags/v"} {
			res, err := client.Get(s.URL() + path)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
				t.Errorf("%s for anybody: %s", path, res.Status)
			}
		}
		for _, path := range []string{"/statusz", "/flagz", "/metrics"} {
			res, body := ask("GET", path, "", "Impersonate-User", "jane")
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("%s for a user without rights: %s %.100s", path, res.Status, body)
			}
			if res, body = ask("GET", path, "", "Impersonate-User", "jane", "Impersonate-Group", "system:monitoring"); res.StatusCode != http.StatusOK {
				t.Errorf("%s for system:monitoring: %s %.100s", path, res.Status, body)
			}
		}
	})
	t.Run("features", func(t *testing.T) {
		if err := features.Use(nil); err != nil {
			t.Fatal(err)
		}
		_, body := ask("GET", "/metrics", "")
		lines := strings.Split(string(body), "\n")
		for _, want := range []string{
			`kubernetes_feature_enabled{name="WatchList",stage="BETA"} 1`, `kubernetes_feature_enabled{name="SidecarContainers",stage=""} 1`,
			`kubernetes_feature_enabled{name="CBORServingAndStorage",stage="ALPHA"} 0`, `kubernetes_feature_enabled{name="DynamicResourceAllocation",stage=""} 0`,
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("no line %s", want)
			}
		}
	})
}
