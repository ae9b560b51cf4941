package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TokenRequester asks the API for a service account token.
type TokenRequester func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

const (
	maxTokenAge   = 24 * time.Hour // a token older than this is replaced even if it lives long
	defaultExpiry = int64(3600)
)

type tokenKey struct {
	uid types.UID
	id  string // account, audiences, lifetime
}

type token struct {
	value         string
	issued, until time.Time
}

// tokens keeps bound tokens until they should be replaced: at 80 % of their life, or after a day.
type tokens struct {
	request TokenRequester
	now     func() time.Time

	mu  sync.Mutex
	all map[tokenKey]token
}

func (t token) fresh(now time.Time) bool {
	life := t.until.Sub(t.issued)
	return t.value != "" && now.Before(t.issued.Add(life*8/10)) && now.Before(t.issued.Add(maxTokenAge))
}

func (ts *tokens) get(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, error) {
	expiry := defaultExpiry
	if p.ExpirationSeconds != nil {
		expiry = *p.ExpirationSeconds
	}
	var audiences []string
	if p.Audience != "" {
		audiences = []string{p.Audience}
	}
	k := tokenKey{pod.UID, fmt.Sprintf("%s|%s|%d", pod.Spec.ServiceAccountName, strings.Join(slices.Sorted(slices.Values(audiences)), ","), expiry)}
	now := ts.now()
	ts.mu.Lock()
	have := ts.all[k]
	ts.mu.Unlock()
	if have.fresh(now) {
		return have.value, nil
	}
	resp, err := ts.request(ctx, pod.Namespace, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: audiences, ExpirationSeconds: &expiry,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	})
	if err != nil {
		if have.value != "" && now.Before(have.until) {
			return have.value, nil // still valid: better than none
		}
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	ts.mu.Lock()
	ts.all[k] = token{value: resp.Status.Token, issued: now, until: resp.Status.ExpirationTimestamp.Time}
	ts.mu.Unlock()
	return resp.Status.Token, nil
}

func (ts *tokens) forget(uid types.UID) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for k := range ts.all {
		if k.uid == uid {
			delete(ts.all, k)
		}
	}
}
