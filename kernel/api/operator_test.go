package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/inspect"
)

// What an operator may ask is authorized as any path that is no resource.
func TestInspectionIsAuthorized(t *testing.T) {
	mux := inspect.New()
	mux.Get("ping", func(*http.Request) (any, error) { return map[string]string{"pong": "yes"}, nil })
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.InspectHandler = mux })
	ask := func(u user.Info) error {
		c := must(inspect.Dial(s.ClientConfig(u)))
		var out map[string]string
		if err := c.Get(t.Context(), nil, &out, "ping"); err != nil {
			return err
		}
		if out["pong"] != "yes" {
			t.Errorf("answer %v", out)
		}
		return nil
	}
	if err := ask(&user.DefaultInfo{Name: "boss", Groups: []string{user.SystemPrivilegedGroup}}); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	err := ask(&user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}})
	const words = `forbidden: User "jane" cannot get path "/inspect/v1alpha1/ping"`
	if status := apierrors.APIStatus(nil); !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Message != words {
		t.Errorf("another user: %v; want %s", err, words)
	}
}

// Profiles and the configuration in force are the administrator's, and whose role
// has their paths, as with kube-scheduler.
func TestDebugPathsAreAuthorized(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
		c.ConfigzHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":{}}`)) })
	})
	boss := &user.DefaultInfo{Name: "boss", Groups: []string{user.SystemPrivilegedGroup}}
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	for path, want := range map[string]string{
		"/configz": `{"a":{}}`, "/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile", "/debug/pprof/profile?seconds=1": "",
	} {
		get := func(u user.Info) (string, error) {
			body, err := must(kubernetes.NewForConfig(s.ClientConfig(u))).Discovery().RESTClient().Get().RequestURI(path).DoRaw(t.Context())
			return string(body), err
		}
		if body, err := get(boss); err != nil || !strings.Contains(body, want) || body == "" {
			t.Errorf("%s for an administrator: %.80q %v", path, body, err)
		}
		if _, err := get(jane); !apierrors.IsForbidden(err) {
			t.Errorf("%s for another user: %v", path, err)
		}
	}
}
