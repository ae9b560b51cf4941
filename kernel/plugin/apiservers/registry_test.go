package apiservers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
)

var notes = schema.GroupVersion{Group: "notes.example.com", Version: "v1"}

// registry has a server of one handler, and waits for its first check.
func registry(t *testing.T, handler http.HandlerFunc) (*Registry, *testingclock.FakeClock, chan struct{}) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	clock, changed := testingclock.NewFakeClock(time.Now()), make(chan struct{}, 16)
	r := New(func() { changed <- struct{}{} }, clock)
	t.Cleanup(r.Close)
	r.Up("notes", 1, []schema.GroupVersion{notes}, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	return r, clock, changed
}

func TestWhoAnswersAsItShallIsReached(t *testing.T) {
	const good = `{"kind":"APIResourceList","groupVersion":"notes.example.com/v1","resources":[]}`
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // empty: it is reached
	}{
		{"as it shall", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, good) }, ""},
		{"rubbish", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\x00") }, "want an APIResourceList"},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "want an APIResourceList"},
		{"Kubernetes' group", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.ReplaceAll(good, "notes.example.com/v1", "apps/v1"))
		}, `it is of group version "apps/v1"`},
		{"a redirect to one that would do", func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/good" {
				_, _ = io.WriteString(w, good)
				return
			}
			http.Redirect(w, req, "/good", http.StatusFound)
		}, "bad status from /apis/notes.example.com/v1: 302"},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, good, http.StatusForbidden) }, "403"},
		{"without an end", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, "more than 1048576 bytes"},
		{"a header without an end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("a", 2*maxHeaderBytes))
		}, "failing or missing response"},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "failing or missing response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _, changed := registry(t, c.answer)
			<-changed
			_, err := r.Transport("notes", notes)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// The kernel asks as Kubernetes' aggregator does, with no one else's name.
func TestWhoAsks(t *testing.T) {
	var mu sync.Mutex
	var header http.Header
	_, _, changed := registry(t, func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		header = req.Header.Clone()
	})
	<-changed
	mu.Lock()
	defer mu.Unlock()
	if header.Get("X-Remote-User") != checkerName || fmt.Sprint(header.Values("X-Remote-Group")) != "[system:masters]" {
		t.Errorf("it is asked by %v", header)
	}
}

// A server that answers again is reached again, and it is told.
func TestAvailabilityFollows(t *testing.T) {
	var mu sync.Mutex
	well := false
	r, clock, changed := registry(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !well {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"groupVersion":%q}`, notes)
	})
	<-changed
	if err := r.Fault("notes", notes); err == nil {
		t.Error("it is reached although its check failed")
	}
	mu.Lock()
	well = true
	mu.Unlock()
	for r.Fault("notes", notes) != nil {
		if clock.HasWaiters() {
			clock.Step(checkEvery)
		}
		select {
		case <-changed:
		default:
		}
	}
	if err := r.Fault("notes", schema.GroupVersion{Group: "notes.example.com", Version: "v2"}); err == nil || !strings.Contains(err.Error(), "does not serve notes.example.com/v2") {
		t.Errorf("another version: %v", err)
	}
	if err := r.Fault("none", notes); err == nil || !strings.Contains(err.Error(), "plugin none is not in use at this API server") {
		t.Errorf("another plugin: %v", err)
	}
	r.Down("notes", fmt.Errorf("it is starting"))
	if err := r.Fault("notes", notes); err == nil || !strings.Contains(err.Error(), "plugin notes: it is starting") {
		t.Errorf("down: %v", err)
	}
	r.Keep(nil)
	if err := r.Fault("notes", notes); err == nil || !strings.Contains(err.Error(), "not in use") {
		t.Errorf("forgotten: %v", err)
	}
}
