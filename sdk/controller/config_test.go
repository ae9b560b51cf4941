package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// TestConnectionsAreShared: many requests at once share a bounded number of connections,
// which stay, and a request that is given up does not hold one.
func TestConnectionsAreShared(t *testing.T) {
	dir, err := os.MkdirTemp("", "ptc") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int32
	release, held := make(chan struct{}), make(chan struct{}, 2*connections)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/held" {
				held <- struct{}{}
				select {
				case <-release:
				case <-req.Context().Done():
				}
			}
			fmt.Fprint(w, req.URL.Path)
		}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		},
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) })
	defer serving.Wait()
	defer server.Close()
	client, err := rest.HTTPClientFor(ConfigFor(socket, "test"))
	if err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context, path string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pintle.local"+path, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body) // read to its end, which frees the connection
		return errors.Join(err, resp.Body.Close())
	}
	for range 3 {
		var wg sync.WaitGroup
		for range 4 * connections {
			wg.Go(func() {
				if err := get(t.Context(), "/x"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if n := opened.Load(); n > connections {
		t.Errorf("%d connections were opened, want at most %d", n, connections)
	}
	// All are taken by requests that are then given up.
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 * connections {
		wg.Go(func() {
			if err := get(ctx, "/held"); !errors.Is(err, context.Canceled) {
				t.Errorf("a request that is given up: %v", err)
			}
		})
	}
	for range connections {
		<-held
	}
	// Counted before the requests are given up: net/http may still send a waiting request
	// whose context ended in the moment in which a connection became free.
	if n := len(held); n > 0 {
		t.Errorf("%d requests more than there may be connections were sent", n)
	}
	cancel()
	wg.Wait()
	after, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := get(after, "/x"); err != nil {
		t.Error(err)
	}
	close(release)
	client.CloseIdleConnections()
}

// TestRunLeavesNoConnections: what a controller's run opened is closed once it ends, also
// where it panics, and what trying a configuration opened.
func TestRunLeavesNoConnections(t *testing.T) {
	dir, err := os.MkdirTemp("", "ptc") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan http.ConnState, 100)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew || s == http.StateClosed {
				states <- s
			}
		},
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) })
	defer serving.Wait()
	defer server.Close()
	ask := func(c *Context) error {
		return errors.Join(c.Client.Discovery().RESTClient().Get().AbsPath("/x").Do(t.Context()).Error(),
			c.Client.Discovery().RESTClient().Get().AbsPath("/x").Param("watch", "true").Do(t.Context()).Error())
	}
	r := &run{spec: &contractv1.ControllerSpec{Name: "one", Socket: socket}}
	once := func(runner func(c *Context) error) error {
		with := r.context(nil, ConfigFor(socket, "test"), informers.NewSharedInformerFactory(nil, 0), slog.New(slog.DiscardHandler))
		return r.once(t.Context(), Controller{New: func(c *Context) (Runner, error) {
			return RunnerFunc(func(context.Context) error { return runner(c) }), nil
		}}, with, nil)
	}
	for name, run := range map[string]func() error{
		"an end": func() error { return once(ask) },
		"a panic": func() error {
			err := once(func(c *Context) error {
				if err := ask(c); err != nil {
					return err
				}
				panic("on purpose")
			})
			if err == nil || !strings.Contains(err.Error(), "on purpose") {
				return fmt.Errorf("it did not panic: %w", err)
			}
			return nil
		},
		"a trial": func() error {
			return r.try(Controller{New: func(c *Context) (Runner, error) {
				return RunnerFunc(func(context.Context) error { return nil }), ask(c)
			}}, nil, ConfigFor(socket, "test"), slog.New(slog.DiscardHandler))
		},
	} {
		if err := run(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		opened, limit := 0, time.After(idleTime/2)
		for closed := 0; opened == 0 || closed < opened; {
			select {
			case s := <-states:
				if s == http.StateNew {
					opened++
				} else {
					closed++
				}
			case <-limit:
				t.Fatalf("%s: %d of %d connections were closed", name, closed, opened)
			}
		}
		if opened < 2 {
			t.Errorf("%s: %d connections, want one for each transport", name, opened)
		}
	}
}
