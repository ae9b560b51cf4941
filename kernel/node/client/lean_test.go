package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestLean: each group is asked at its own path, from many goroutines at once, with what the configuration says.
func TestLean(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Method+" "+r.URL.Path+" by "+r.UserAgent()]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	c, err := NewLean(&rest.Config{Host: server.URL, UserAgent: "me", QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.http.CloseIdleConnections()
	const times = 4
	var wg sync.WaitGroup
	for range times {
		for _, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error {
				_, err := c.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
				return err
			},
			func(ctx context.Context) error {
				_, err := c.CoordinationV1().Leases("ns").Get(ctx, "n", metav1.GetOptions{})
				return err
			},
			func(ctx context.Context) error {
				_, err := c.NodeV1().RuntimeClasses().Get(ctx, "n", metav1.GetOptions{})
				return err
			},
			func(ctx context.Context) error {
				_, err := c.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{})
				return err
			},
			func(ctx context.Context) error {
				_, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
				return err
			},
		} {
			wg.Go(func() {
				if err := call(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, want := range []string{
		"GET /api/v1/nodes/n by me", "GET /apis/coordination.k8s.io/v1/namespaces/ns/leases/n by me", "GET /apis/node.k8s.io/v1/runtimeclasses/n by me",
		"POST /apis/authentication.k8s.io/v1/tokenreviews by me", "POST /apis/authorization.k8s.io/v1/subjectaccessreviews by me",
	} {
		if seen[want] != times {
			t.Errorf("%d of %s", seen[want], want)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("besides: %v", seen)
	}
}

// TestLeanRefuses: what no client can be made of is an error at once.
func TestLeanRefuses(t *testing.T) {
	for name, cfg := range map[string]*rest.Config{
		"host":        {Host: "http://a b"},
		"certificate": {Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}},
	} {
		if c, err := NewLean(cfg); err == nil || c != nil {
			t.Errorf("%s: %v %v", name, c, err)
		}
	}
}
