package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/kernel/node/localvolume"
)

// Who may delete nodes/proxy removes a volume, by its name and nothing else.
func TestRemoveLocalVolume(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		r.Status.Authenticated, r.Status.User.Username = true, r.Spec.Token
		return true, r, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		at := r.Spec.ResourceAttributes
		r.Status.Allowed = at.Subresource == "proxy" && at.Verb == r.Spec.User // the users are named by their verb
		return true, r, nil
	})
	const name = "pvc-0a1b2c3d-0000-4000-8000-00000000beef"
	store := localvolume.New(filepath.Join(t.TempDir(), "volumes"))
	if err := store.Make(name, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	var fault error
	var asked []string
	s := New(Config{NodeName: "n"}, Deps{Client: client, Logger: slog.New(slog.DiscardHandler), RemoveLocalVolume: func(ctx context.Context, name string) error {
		asked = append(asked, name)
		return errors.Join(fault, store.Remove(ctx, name, func() (string, error) { return "", nil }))
	}})
	ask := func(user, method, path string) int {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer "+user)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	for _, user := range []string{"get", "create", "update", "patch"} {
		if code := ask(user, "DELETE", "/localvolumes/"+name); code != http.StatusForbidden {
			t.Errorf("%s nodes/proxy removes: %d", user, code)
		}
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH"} {
		verbs := map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
		if code := ask(verbs[method], method, "/localvolumes/"+name); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, code)
		}
	}
	for path, want := range map[string]int{
		"/localvolumes/": http.StatusNotFound, "/localvolumes/" + name + "/..": http.StatusTemporaryRedirect, "/localvolumes/x/y": http.StatusNotFound,
		"/localvolumes/..%2F..%2Fetc": http.StatusBadRequest, "/localvolumes/%2Fetc": http.StatusBadRequest, "/localvolumes/etc": http.StatusBadRequest,
		"/localvolumes/%2E%2E": http.StatusTemporaryRedirect, "/localvolumes/" + name + "%00": http.StatusBadRequest,
	} {
		if code := ask("delete", "DELETE", path); code != want && code != http.StatusNotFound && code != http.StatusBadRequest {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	if _, err := os.Stat(store.Path(name)); err != nil {
		t.Fatal(err)
	}
	for _, other := range asked {
		if other == name {
			t.Errorf("the store was asked for %s", other)
		}
	}
	for _, step := range []struct {
		fault error
		want  int
	}{
		{localvolume.ErrGoesOn, http.StatusAccepted},
		{&localvolume.InUseError{Name: name, User: "u"}, http.StatusConflict},
		{errors.New("disk"), http.StatusInternalServerError},
		{nil, http.StatusNoContent},
		{nil, http.StatusNoContent},
	} {
		fault = step.fault
		if code := ask("delete", "DELETE", "/localvolumes/"+name); code != step.want {
			t.Errorf("%v: %d, want %d", step.fault, code, step.want)
		}
	}
	s = New(Config{NodeName: "n"}, Deps{Client: client, Logger: slog.New(slog.DiscardHandler)})
	if code := ask("delete", "DELETE", "/localvolumes/"+name); code != http.StatusNotFound {
		t.Errorf("a node without volumes: %d", code)
	}
}
