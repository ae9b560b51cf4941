package api_test

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

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
