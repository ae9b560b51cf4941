package peerproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"pintle.dev/pintle/kernel/api/answerlimit"
)

const (
	// discoveryTimeout and discoveryLimit bound what is read of a peer's discovery,
	// which one that hangs would else keep the others from.
	discoveryTimeout = 5 * time.Second
	discoveryLimit   = 16 << 20
)

// guarded is the way to peers: a redirect goes nowhere, and what cannot be sent is
// answered as the API answers.
type guarded struct{ next http.RoundTripper }

// WrappedRoundTripper lets the transport below be found.
func (g guarded) WrappedRoundTripper() http.RoundTripper { return g.next }

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if path := req.URL.Path; path == "/api" || path == "/apis" { // requests of clients are for resources
		return discoveryOf(req, g.next)
	}
	// The peer has turns of its own; a request that it serves has no seat here.
	flowcontrol.RequestDelegated(req.Context())
	res, err := g.next.RoundTrip(req)
	switch {
	case err != nil:
		return refusal(req, fmt.Sprintf("the API server at %s serves this resource, and does not answer: %v", req.URL.Host, err))
	case res.StatusCode >= 300 && res.StatusCode < 400 && res.StatusCode != http.StatusNotModified:
		res.Body.Close()
		return refusal(req, fmt.Sprintf("the API server at %s serves this resource, and answered with a redirect (%d), which is not followed", req.URL.Host, res.StatusCode))
	case res.StatusCode == http.StatusUnauthorized:
		// The client is who it says; a 401 would have it throw its token away.
		res.Body.Close()
		return refusal(req, fmt.Sprintf("the API server at %s serves this resource, and does not know this API server as one of its cluster", req.URL.Host))
	}
	return res, nil
}

// discoveryOf reads the whole answer, within its bounds.
func discoveryOf(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), discoveryTimeout)
	defer cancel()
	res, err := answerlimit.Transport{Next: next, Who: "the API server at " + req.URL.Host, Max: discoveryLimit}.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("discovery of the API server at %s: %w", req.URL.Host, err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// refusal is 503 in place of an answer: a client tries again.
func refusal(req *http.Request, why string) (*http.Response, error) {
	if err := req.Context().Err(); err != nil { // nobody waits
		return nil, err
	}
	status := apierrors.NewServiceUnavailable(why).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(http.StatusServiceUnavailable), StatusCode: http.StatusServiceUnavailable,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header:        http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}
