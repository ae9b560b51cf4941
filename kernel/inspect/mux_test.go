package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

type question struct {
	Name string `json:"name"`
}

func serve(t *testing.T, m *Mux) *Client {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	c, err := Dial(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestQuestions(t *testing.T) {
	m := New()
	m.Get("things/{name}/why", func(req *http.Request) (any, error) {
		switch name := req.PathValue("name"); name {
		case "none":
			return nil, NotFound("", "things", name)
		case "bad":
			return nil, errors.New("disk on fire")
		case "later":
			return nil, Unavailable("not yet")
		default:
			return question{name + req.FormValue("more")}, nil
		}
	})
	Post(m, "ask", func(_ context.Context, q *question) (any, error) { return q, nil })
	m.Stream("lines", "text/plain", func(req *http.Request, out io.Writer) error {
		if req.FormValue("fail") != "" {
			return apierrors.NewBadRequest("no lines")
		}
		_, err := io.WriteString(out, "one\n")
		return errors.Join(err, errors.New("too late to tell"))
	})
	c := serve(t, m)
	get := func(name string) (question, error) {
		var out question
		err := c.Get(t.Context(), url.Values{"more": {"!"}}, &out, "things", name, "why")
		return out, err
	}
	if out, err := get("a b"); err != nil || out.Name != "a b!" {
		t.Errorf("get: %v, %v; want a b!", out, err)
	}
	if _, err := get("none"); !apierrors.IsNotFound(err) || err.Error() != `things "none" not found` {
		t.Errorf("get of what is not there: %v", err)
	}
	if _, err := get("bad"); !apierrors.IsInternalError(err) {
		t.Errorf("get that fails: %v; want an internal error", err)
	}
	if _, err := get("later"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("get that is not possible: %v", err)
	}
	var out question
	if err := c.Post(t.Context(), question{"x"}, &out, "ask"); err != nil || out.Name != "x" {
		t.Errorf("post: %v, %v", out, err)
	}
	if err := c.Post(t.Context(), map[string]string{"nam": "x"}, &out, "ask"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "nam"`) {
		t.Errorf("post of an unknown field: %v", err)
	}
	if err := c.Post(t.Context(), question{strings.Repeat("x", MaxBody)}, &out, "ask"); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("post of too much: %v", err)
	}
	if err := c.Get(t.Context(), nil, &out, "ask"); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("get of a post: %v", err)
	}
	if err := c.Get(t.Context(), nil, &out, "nothing"); !apierrors.IsNotFound(err) {
		t.Errorf("get of no question: %v", err)
	}
	if err := c.Get(t.Context(), nil, &out, strings.Repeat("x", maxPath)); !apierrors.IsBadRequest(err) {
		t.Errorf("get of a long path: %v", err)
	}
	lines, err := c.Stream(t.Context(), nil, "lines")
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	if text, err := io.ReadAll(lines); err != nil || string(text) != "one\n" {
		t.Errorf("stream: %q, %v", text, err)
	}
	if _, err := c.Stream(t.Context(), url.Values{"fail": {"1"}}, "lines"); !apierrors.IsBadRequest(err) {
		t.Errorf("stream that fails at once: %v", err)
	}
}

func TestTooManyAtOnce(t *testing.T) {
	m := New()
	in, out := make(chan struct{}), make(chan struct{})
	m.Get("slow", func(req *http.Request) (any, error) {
		in <- struct{}{}
		<-out
		return question{}, nil
	})
	done := make(chan int)
	for range maxQuestions {
		go func() {
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+"slow", nil))
			done <- w.Code
		}()
	}
	for range maxQuestions {
		<-in
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+"slow", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d %v", w.Code, w.Header())
	}
	close(out)
	for range maxQuestions {
		if code := <-done; code != http.StatusOK {
			t.Error(fmt.Sprint("one of those with room: ", code))
		}
	}
}
