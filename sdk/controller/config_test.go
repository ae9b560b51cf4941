package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
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
	release := make(chan struct{})
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/held" {
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
		wg.Go(func() { _ = get(ctx, "/held") })
	}
	cancel()
	wg.Wait()
	if err := get(t.Context(), "/x"); err != nil {
		t.Error(err)
	}
	close(release)
	client.CloseIdleConnections()
}
