package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Whatever a client sends, it gets a clear status of 4xx, and the server goes
// on (S-7: 400 for a bad field selector).
func TestHostileRequests(t *testing.T) {
	s := start(t, t.TempDir())
	client, err := rest.HTTPClientFor(must(kubeconfig(s)))
	if err != nil {
		t.Fatal(err)
	}
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
	if _, err := overTLS(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), there, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const (
		maps  = "/api/v1/namespaces/default/configmaps"
		pods  = "/api/v1/namespaces/default/pods"
		token = "/api/v1/namespaces/default/serviceaccounts/default/token"
		js    = "application/json"
		apply = "application/apply-patch+yaml"
		table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	)
	object := func(meta string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{` + meta + `}}`
	}
	bomb := func() string {
		out := "a: &a [l,l,l,l,l,l,l,l,l]\n"
		for c := 'b'; c < 'k'; c++ {
			out += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
		}
		return out
	}()
	deep := strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000)
	operations := "[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/data/a","value":"x"},`, 20_000), ",") + "]"
	for _, tt := range []struct {
		name, method, path, contentType, accept, body string

		code int
		want string
	}{
		{name: "body", method: "POST", path: maps, contentType: js, body: `{"data":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`, code: 413, want: "limit is 3145728"},
		{name: "data", method: "POST", path: maps, contentType: js, body: `{"metadata":{"name":"a"},"data":{"a":"` + strings.Repeat("x", 2<<20) + `"}}`, code: 422, want: "may not be more than 1048576 bytes"},
		{name: "depth of JSON", method: "POST", path: maps, contentType: js, body: deep, code: 400, want: "exceeded max depth"},
		{name: "depth of YAML", method: "POST", path: maps, contentType: "application/yaml", body: deep, code: 400, want: "exceeded max depth"},
		{name: "aliases", method: "POST", path: maps, contentType: "application/yaml", body: bomb, code: 400, want: "excessive aliasing"},
		{name: "aliases in an apply", method: "PATCH", path: maps + "/a?fieldManager=m", contentType: apply, body: bomb, code: 400, want: "excessive aliasing"},
		{name: "depth of an apply", method: "PATCH", path: maps + "/a?fieldManager=m", contentType: apply, body: deep, code: 400, want: "exceeded max depth"},
		{name: "depth of a patch", method: "PATCH", path: maps + "/there", contentType: "application/merge-patch+json", body: deep, code: 400, want: "invalid JSON patch"},
		{name: "operations", method: "PATCH", path: maps + "/there", contentType: "application/json-patch+json", body: operations, code: 413, want: "maximum operations in a JSON patch is 10000"},
		{name: "annotations", method: "POST", path: maps, contentType: js, body: object(`"name":"a","annotations":{"a":"` + strings.Repeat("x", 300_000) + `"}`), code: 422, want: "may not be more than 262144 bytes"},
		{name: "text", method: "POST", path: maps, contentType: js, body: object(`"name":"u` + "\xff" + `"`), code: 422, want: "a lowercase RFC 1123 subdomain"},
		{name: "protobuf", method: "POST", path: maps, contentType: "application/vnd.kubernetes.protobuf", body: "k8s\x00\xff\xff\xff\xff\xff", code: 400, want: "unexpected EOF"},
		{name: "content type", method: "POST", path: maps, contentType: "text/plain", body: object(`"name":"a"`), code: 415, want: "accepted media types include: application/json"},
		{name: "accepted type", method: "GET", path: maps, accept: "application/xml", code: 406, want: "Not Acceptable"},
		{name: "kind", method: "POST", path: maps, contentType: js, body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, code: 400, want: "cannot be handled as a ConfigMap"},
		{name: "no object", method: "POST", path: maps, contentType: js, body: "null", code: 422, want: "name or generateName is required"},
		{name: "no body", method: "POST", path: maps, contentType: js, code: 400, want: "unexpected end of JSON input"},
		{name: "limit", method: "GET", path: maps + "?limit=99999999999999999999", code: 400, want: "value out of range"},
		{name: "continue token", method: "GET", path: maps + "?limit=1&continue=zzzz", code: 400, want: "continue key is not valid"},
		{name: "list version", method: "GET", path: maps + "?resourceVersion=abc", code: 400, want: "invalid resource version"},
		{name: "list of the future", method: "GET", path: maps + "?resourceVersion=999999999", code: 504, want: "Too large resource version"},
		{name: "watch version", method: "GET", path: maps + "?watch=1&timeoutSeconds=1&resourceVersion=abc", code: 400, want: "invalid resource version"},
		{name: "initial events", method: "GET", path: maps + "?watch=1&timeoutSeconds=1&sendInitialEvents=true", code: 422, want: "requires setting resourceVersionMatch"},
		{name: "selector", method: "GET", path: maps + "?labelSelector=a%3D%3D%3Db", code: 400, want: "unable to parse requirement"},
		{name: "field selector", method: "GET", path: pods + "?fieldSelector=status.foo%3Da", code: 400, want: "field label not supported: status.foo"},
		{name: "manager", method: "PATCH", path: maps + "/a?fieldManager=" + strings.Repeat("a", 200), contentType: apply, body: object(`"name":"a"`), code: 422, want: "may not be more than 128 bytes"},
		{name: "log", method: "GET", path: pods + "/a/log?tailLines=-1", code: 422, want: "must be greater than or equal to 0"},
		{name: "token", method: "POST", path: token, contentType: js, body: `{"spec":{"expirationSeconds":9223372036854775807}}`, code: 422, want: "may not specify a duration larger than 2^32 seconds"},
		{name: "token as a table", method: "POST", path: token, contentType: js, accept: table, body: `{}`, code: 406, want: "media types are accepted"},
		{name: "method", method: "FOO", path: maps, code: 405, want: "does not allow this method"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL()+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range map[string]string{"Content-Type": tt.contentType, "Accept": tt.accept} {
				if value != "" {
					req.Header.Set(key, value)
				}
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.code {
				t.Errorf("status %d, want %d: %.300s", resp.StatusCode, tt.code, body)
			}
			var status metav1.Status
			if tt.want != "" {
				if err := json.Unmarshal(body, &status); err != nil || int(status.Code) != tt.code || !strings.Contains(status.Message, tt.want) {
					t.Errorf("no Status of code %d with %q: %.300s (%v)", tt.code, tt.want, bytes.TrimSpace(body), err)
				}
			}
		})
	}
}
