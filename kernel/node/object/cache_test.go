package object

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// roundTripper is an API whose answers the test gives.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestReadIsCarriedThrough: a pod that goes while its objects are being read does not have the request given up, which
// the API would report as a timeout of its own; Close does.
func TestReadIsCarriedThrough(t *testing.T) {
	begun := make(chan *http.Request)
	answer := make(chan struct{})
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", QPS: -1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		begun <- r
		select {
		case <-answer:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	c := New(client, func(types.UID) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	read := func(uid types.UID, name string) {
		go func() {
			_, err := c.For(uid).ConfigMap(ctx, "ns", name)
			done <- err
		}()
	}
	read("gone", "a")
	r := <-begun
	cancel()
	if err := <-done; err == nil {
		t.Error("a round that was interrupted waits for its objects")
	}
	c.Release("gone")
	if err := r.Context().Err(); err != nil {
		t.Errorf("the read was given up when the pod went: %v", err)
	}
	answer <- struct{}{}

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	read("closed", "b")
	r = <-begun
	go func() { <-done }()
	c.Close()
	if r.Context().Err() == nil {
		t.Error("a read goes on after the cache was closed")
	}
}
