package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestShortChain sends creates of pods through both chains of filters: status,
// headers and words are to be equal, whoever asks and whatever is asked.
func TestShortChain(t *testing.T) {
	s := start(t, t.TempDir())
	nobody := s.ClientConfig(&user.DefaultInfo{Name: "nobody", Groups: []string{user.AllAuthenticated}})
	anonymous := rest.AnonymousClientConfig(must(kubeconfig(s)))
	wrong := rest.CopyConfig(anonymous)
	wrong.BearerToken = "nothing"
	deprecated := pod("deprecated")
	deprecated.Annotations = map[string]string{"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}
	managed := pod("managed")
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "v1"}}
	for _, c := range []struct {
		name    string
		who     *rest.Config
		pod     *corev1.Pod
		query   string
		headers map[string]string
	}{
		{name: "plain", who: s.ClientConfig(admin), pod: pod("plain")},
		{name: "audited", who: s.ClientConfig(admin), pod: pod("audited"), headers: map[string]string{"Audit-Id": "mine"}},
		{name: "with a warning", who: s.ClientConfig(admin), pod: deprecated},
		{name: "left to the machinery", who: s.ClientConfig(admin), pod: managed},
		{name: "dry run", who: s.ClientConfig(admin), pod: pod("dry"), query: "dryRun=All"},
		{name: "bad option", who: s.ClientConfig(admin), pod: pod("bad"), query: "dryRun=Some"},
		{name: "no rights", who: nobody, pod: pod("none")},
		{name: "nobody known", who: anonymous, pod: pod("none")},
		{name: "token that is none", who: wrong, pod: pod("none")},
		{name: "as somebody", who: s.ClientConfig(admin), pod: pod("as"), headers: map[string]string{"Impersonate-User": "nobody"}},
		{name: "as somebody without rights to", who: nobody, pod: pod("as"), headers: map[string]string{"Impersonate-User": "admin"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := rest.HTTPClientFor(c.who)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(query string) (int, http.Header, string) {
				body, err := json.Marshal(c.pod)
				if err != nil {
					t.Fatal(err)
				}
				url := c.who.Host + "/api/v1/namespaces/default/pods?" + strings.Trim(c.query+"&"+query, "&")
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				for name, value := range c.headers {
					req.Header.Set(name, value)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode == http.StatusCreated {
					if c.query == "" {
						if err := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default").Delete(t.Context(), c.pod.Name, metav1.DeleteOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					answer = nil // compared by TestPodCreateWays
				}
				return resp.StatusCode, resp.Header, string(answer)
			}
			shortCode, shortHeader, shortAnswer := ask("")
			longCode, longHeader, longAnswer := ask("timeout=30s")
			if shortCode != longCode || shortAnswer != longAnswer {
				t.Errorf("short: %d %s\nlong: %d %s", shortCode, shortAnswer, longCode, longAnswer)
			}
			if c.headers["Audit-Id"] == "" {
				for _, h := range []http.Header{shortHeader, longHeader} {
					if h.Get("Audit-Id") == "" {
						t.Error("an answer has no Audit-Id")
					}
					h.Del("Audit-Id")
				}
			}
			// The level's objects may be taken in between the two.
			for _, name := range []string{"Date", "Content-Length", flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID} {
				shortHeader.Del(name)
				longHeader.Del(name)
			}
			if !maps.EqualFunc(shortHeader, longHeader, slices.Equal) {
				t.Errorf("short: %v\nlong: %v", shortHeader, longHeader)
			}
		})
	}
}

// TestShortChainOfOthers sends patches of pods' statuses and deletes of pods through both
// chains: status, headers and words are to be equal, whoever asks and whatever is asked.
func TestShortChainOfOthers(t *testing.T) {
	s := start(t, t.TempDir())
	nobody := s.ClientConfig(&user.DefaultInfo{Name: "nobody", Groups: []string{user.AllAuthenticated}})
	node := s.ClientConfig(&user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}})
	anonymous := rest.AnonymousClientConfig(must(kubeconfig(s)))
	asNode := func(name string) map[string]string {
		return map[string]string{"Impersonate-User": "system:node:" + name, "Impersonate-Group": user.NodesGroup}
	}
	const zero = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`
	for _, c := range []struct {
		name, method, path, query, body string
		who                             *rest.Config
		headers                         map[string]string
	}{
		{name: "status", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: s.ClientConfig(admin)},
		{name: "status, by the node", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: node},
		{name: "status, in a node's name", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: s.ClientConfig(admin), headers: asNode("n1")},
		{name: "status, in another node's name", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: s.ClientConfig(admin), headers: asNode("n2")},
		{name: "status, in a node's name without rights to", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: nobody, headers: asNode("n1")},
		{name: "status, in a group's name alone", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: s.ClientConfig(admin), headers: map[string]string{"Impersonate-Group": user.NodesGroup}},
		{name: "status, in nobody's name", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: s.ClientConfig(admin), headers: map[string]string{"Impersonate-User": ""}},
		{name: "status, without rights", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: nobody},
		{name: "status, unknown", method: http.MethodPatch, path: "/x/status", body: firstStatus, who: anonymous},
		{name: "status of none", method: http.MethodPatch, path: "/none/status", body: firstStatus, who: s.ClientConfig(admin)},
		{name: "status, audited", method: http.MethodPatch, path: "/x/status", body: lastStatus, who: s.ClientConfig(admin), headers: map[string]string{"Audit-Id": "mine"}},
		{name: "no patch", method: http.MethodPatch, path: "/x/status", body: "{", who: s.ClientConfig(admin)},
		{name: "status of a part", method: http.MethodPatch, path: "/x/log/status", body: firstStatus, who: s.ClientConfig(admin)},
		{name: "pod", method: http.MethodPatch, path: "/x", body: `{"metadata":{"labels":{"a":"b"}}}`, who: s.ClientConfig(admin)},
		{name: "delete", method: http.MethodDelete, path: "/x", who: s.ClientConfig(admin)},
		{name: "delete at once", method: http.MethodDelete, path: "/x", body: zero, who: s.ClientConfig(admin)},
		{name: "delete by the node", method: http.MethodDelete, path: "/x", body: zero, who: node},
		{name: "delete in a node's name", method: http.MethodDelete, path: "/x", body: zero, who: s.ClientConfig(admin), headers: asNode("n1")},
		{name: "delete in another node's name", method: http.MethodDelete, path: "/x", body: zero, who: s.ClientConfig(admin), headers: asNode("n2")},
		{name: "delete of none in a node's name", method: http.MethodDelete, path: "/none", body: zero, who: s.ClientConfig(admin), headers: asNode("n1")},
		{name: "delete without rights", method: http.MethodDelete, path: "/x", who: nobody},
		{name: "delete, bad option", method: http.MethodDelete, path: "/x", query: "gracePeriodSeconds=x", who: s.ClientConfig(admin)},
		{name: "delete, dry run", method: http.MethodDelete, path: "/x", query: "dryRun=All", who: s.ClientConfig(admin)},
		{name: "delete of another", method: http.MethodDelete, path: "/x", body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"another"}}`, who: s.ClientConfig(admin)},
		{name: "delete of none", method: http.MethodDelete, path: "/none", who: s.ClientConfig(admin)},
		{name: "delete of a part", method: http.MethodDelete, path: "/x/status", who: s.ClientConfig(admin)},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
			client, err := rest.HTTPClientFor(c.who)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(query string) (int, http.Header, string) {
				made, err := pods.Create(t.Context(), pod("x"), metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Bind(t.Context(), bindingOf(made, "n1")); err != nil {
					t.Fatal(err)
				}
				body := strings.ReplaceAll(c.body, "$UID", string(made.UID))
				req, err := http.NewRequestWithContext(t.Context(), c.method, c.who.Host+"/api/v1/namespaces/default/pods"+c.path+"?"+strings.Trim(c.query+"&"+query, "&"), strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if req.Header.Set("Content-Type", "application/json"); c.method == http.MethodPatch {
					req.Header.Set("Content-Type", smp)
				}
				for name, value := range c.headers {
					req.Header.Set(name, value)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				if err := pods.Delete(t.Context(), "x", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
				if resp.StatusCode == http.StatusOK {
					answer = nil // compared by TestStatusPatchWays
				}
				return resp.StatusCode, resp.Header, strings.ReplaceAll(string(answer), string(made.UID), "UID")
			}
			shortCode, shortHeader, shortAnswer := ask("")
			longCode, longHeader, longAnswer := ask("timeout=30s")
			if shortCode != longCode || shortAnswer != longAnswer {
				t.Errorf("short: %d %s\nlong: %d %s", shortCode, shortAnswer, longCode, longAnswer)
			}
			for _, h := range []http.Header{shortHeader, longHeader} {
				if h.Get("Audit-Id") == "" {
					t.Error("an answer has no Audit-Id")
				}
				if c.headers["Audit-Id"] == "" {
					h.Del("Audit-Id")
				}
				for _, name := range []string{"Date", "Content-Length", flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID} {
					h.Del(name)
				}
			}
			if !maps.EqualFunc(shortHeader, longHeader, slices.Equal) {
				t.Errorf("short: %v\nlong: %v", shortHeader, longHeader)
			}
		})
	}
}
