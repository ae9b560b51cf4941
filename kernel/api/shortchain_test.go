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
