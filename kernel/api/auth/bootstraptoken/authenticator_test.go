package bootstraptoken

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const token = "07401b.f395accd246ae52d"

// A token is good as its Secret says, and gives no name but its own.
func TestAuthenticator(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	change := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	for name, test := range map[string]struct {
		token  string
		change func(*corev1.Secret)
		groups string // empty: refused
	}{
		"good":                    {token, nil, "system:bootstrappers"},
		"more groups":             {token, change("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token"), "system:bootstrappers,system:bootstrappers:kubeadm:default-node-token"},
		"masters":                 {token, change("auth-extra-groups", "system:masters"), ""},
		"masters beside others":   {token, change("auth-extra-groups", "system:bootstrappers:a,system:masters"), ""},
		"a plugin":                {token, change("auth-extra-groups", "system:pintle:plugins"), ""},
		"nodes, by a trick":       {token, change("auth-extra-groups", "system:bootstrappers:x\nsystem:nodes"), ""},
		"ends later":              {token, change("expiration", now.Add(time.Second).Format(time.RFC3339)), "system:bootstrappers"},
		"has ended":               {token, change("expiration", now.Format(time.RFC3339)), ""},
		"ends at no time":         {token, change("expiration", "soon"), ""},
		"not for authentication":  {token, change("usage-bootstrap-authentication", "false"), ""},
		"of another id":           {token, change("token-id", "aaaaaa"), ""},
		"another secret":          {"07401b.0000000000000000", nil, ""},
		"the beginning of it":     {"07401b.f395accd246ae52", nil, ""},
		"no secret in the Secret": {token, change("token-secret", ""), ""},
		"another type":            {token, func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, ""},
		"being deleted":           {token, func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }, ""},
		"no data":                 {token, func(s *corev1.Secret) { s.Data = nil }, ""},
		"unknown":                 {"aaaaaa.f395accd246ae52d", nil, ""},
		"another place":           {"../../07401b.f395accd246ae52d", nil, ""},
		"more lines":              {token + "\n", nil, ""},
		"long":                    {token + strings.Repeat("a", 1<<20), nil, ""},
		"empty":                   {"", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{Type: "bootstrap.kubernetes.io/token", Data: map[string][]byte{
				"token-id": []byte("07401b"), "token-secret": []byte("f395accd246ae52d"), "usage-bootstrap-authentication": []byte("true"),
			}}
			if test.change != nil {
				test.change(secret)
			}
			a := &Authenticator{Now: func() time.Time { return now }, Secret: func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
				if namespace != "kube-system" || name != "bootstrap-token-07401b" {
					return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
				}
				return secret, nil
			}}
			res, ok, err := a.AuthenticateToken(t.Context(), test.token)
			if err != nil || ok != (test.groups != "") {
				t.Fatalf("%v, %v, %v", res, ok, err)
			}
			if ok && (res.User.GetName() != "system:bootstrap:07401b" || strings.Join(res.User.GetGroups(), ",") != test.groups) {
				t.Errorf("%+v", res.User)
			}
		})
	}
	failing := &Authenticator{Secret: func(context.Context, string, string) (*corev1.Secret, error) { return nil, errors.New("no storage") }}
	if _, ok, err := failing.AuthenticateToken(t.Context(), token); ok || err == nil {
		t.Errorf("without an answer of the store: %v, %v", ok, err)
	}
}
