package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const issuerURL = "https://kubernetes.default.svc.cluster.local"

type objects map[string]metav1.Object

func find[T any](o objects, resource, key string) (*T, error) {
	obj, ok := any(o[resource+"/"+key]).(*T)
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource(resource), key)
	}
	return obj, nil
}

func (o objects) GetServiceAccount(_ context.Context, ns, name string) (*corev1.ServiceAccount, error) {
	return find[corev1.ServiceAccount](o, "serviceaccounts", ns+"/"+name)
}
func (o objects) GetPod(_ context.Context, ns, name string) (*corev1.Pod, error) {
	return find[corev1.Pod](o, "pods", ns+"/"+name)
}
func (o objects) GetSecret(_ context.Context, ns, name string) (*corev1.Secret, error) {
	return find[corev1.Secret](o, "secrets", ns+"/"+name)
}
func (o objects) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return find[corev1.Node](o, "nodes", name)
}

func meta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}
}

func cluster() objects {
	return objects{
		"serviceaccounts/ns/app": &corev1.ServiceAccount{ObjectMeta: meta("app", "sa-uid")},
		"pods/ns/web":            &corev1.Pod{ObjectMeta: meta("web", "pod-uid"), Spec: corev1.PodSpec{ServiceAccountName: "app", NodeName: "n1"}},
		"pods/ns/other":          &corev1.Pod{ObjectMeta: meta("other", "other-uid"), Spec: corev1.PodSpec{ServiceAccountName: "other"}},
		"secrets/ns/s":           &corev1.Secret{ObjectMeta: meta("s", "secret-uid")},
		"nodes/n1":               &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}},
	}
}

type fixture struct {
	objects objects
	key     *ecdsa.PrivateKey
	keys    *Keys
	issuer  *Issuer
	auth    *Authenticator
	now     time.Time
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{objects: cluster(), key: key, now: time.Now()}
	f.keys = &Keys{}
	if err := f.keys.Set(key); err != nil {
		t.Fatal(err)
	}
	if f.issuer, err = NewIssuer(issuerURL, f.keys); err != nil {
		t.Fatal(err)
	}
	f.auth, err = NewAuthenticator(Config{
		Issuers: []string{issuerURL}, Keys: f.keys, Audiences: []string{issuerURL},
		Getter: f.objects, Now: func() time.Time { return f.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) request(bound Binding) Request {
	sa, _ := f.objects.GetServiceAccount(context.Background(), "ns", "app")
	return Request{ServiceAccount: sa, Binding: bound, Audiences: []string{issuerURL}, Expiration: time.Hour}
}

func (f *fixture) bind(what string) Binding {
	switch what {
	case "pod":
		pod, _ := f.objects.GetPod(context.Background(), "ns", "web")
		node, _ := f.objects.GetNode(context.Background(), "n1")
		return Binding{Pod: pod, Node: node}
	case "secret":
		secret, _ := f.objects.GetSecret(context.Background(), "ns", "s")
		return Binding{Secret: secret}
	case "node":
		node, _ := f.objects.GetNode(context.Background(), "n1")
		return Binding{Node: node}
	}
	return Binding{}
}

func TestAuthenticate(t *testing.T) {
	past := metav1.NewTime(time.Now().Add(-time.Hour))
	for _, tt := range []struct {
		name    string
		bound   string
		change  func(f *fixture)
		wantErr string
		extra   map[string]string
	}{
		{name: "unbound"},
		{name: "pod", bound: "pod", extra: map[string]string{
			"authentication.kubernetes.io/pod-name": "web", "authentication.kubernetes.io/pod-uid": "pod-uid",
			"authentication.kubernetes.io/node-name": "n1", "authentication.kubernetes.io/node-uid": "node-uid",
		}},
		{name: "secret", bound: "secret"},
		{name: "node", bound: "node", extra: map[string]string{"authentication.kubernetes.io/node-name": "n1"}},
		{name: "expired", change: func(f *fixture) { f.now = f.now.Add(2 * time.Hour) }, wantErr: "service account token has expired"},
		{name: "not yet valid", change: func(f *fixture) { f.now = f.now.Add(-time.Hour) }, wantErr: "service account token is not valid yet"},
		{name: "account gone", change: func(f *fixture) { delete(f.objects, "serviceaccounts/ns/app") }, wantErr: "not found"},
		{name: "account made anew", change: func(f *fixture) { f.objects["serviceaccounts/ns/app"].SetUID("new") }, wantErr: "service account UID (new) does not match claim (sa-uid)"},
		{name: "account being deleted", change: func(f *fixture) { f.objects["serviceaccounts/ns/app"].SetDeletionTimestamp(&past) }, wantErr: "service account ns/app has been deleted"},
		{name: "pod gone", bound: "pod", change: func(f *fixture) { delete(f.objects, "pods/ns/web") }, wantErr: "service account token has been invalidated"},
		{name: "pod made anew", bound: "pod", change: func(f *fixture) { f.objects["pods/ns/web"].SetUID("new") }, wantErr: "pod UID (new) does not match service account pod ref claim (pod-uid)"},
		{name: "pod being deleted", bound: "pod", change: func(f *fixture) { f.objects["pods/ns/web"].SetDeletionTimestamp(&past) }, wantErr: "service account token has been invalidated"},
		{name: "pod's node gone", bound: "pod", change: func(f *fixture) { delete(f.objects, "nodes/n1") }},
		{name: "secret gone", bound: "secret", change: func(f *fixture) { delete(f.objects, "secrets/ns/s") }, wantErr: "service account token has been invalidated"},
		{name: "node gone", bound: "node", change: func(f *fixture) { delete(f.objects, "nodes/n1") }, wantErr: "service account token has been invalidated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			compact, id, err := f.issuer.Issue(f.request(f.bind(tt.bound)))
			if err != nil {
				t.Fatal(err)
			}
			if tt.change != nil {
				tt.change(f)
			}
			response, ok, err := f.auth.AuthenticateToken(t.Context(), compact)
			if tt.wantErr != "" {
				if ok || err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("ok %v, error %v, want %q", ok, err, tt.wantErr)
				}
				return
			}
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if got := response.User.GetName(); got != "system:serviceaccount:ns:app" {
				t.Errorf("user %q", got)
			}
			if got := response.User.GetGroups(); !slices.Equal(got, []string{"system:serviceaccounts", "system:serviceaccounts:ns"}) {
				t.Errorf("groups %q", got)
			}
			extra := response.User.GetExtra()
			if got := extra["authentication.kubernetes.io/credential-id"]; !slices.Equal(got, []string{"JTI=" + id}) {
				t.Errorf("credential id %q", got)
			}
			for key, want := range tt.extra {
				if !slices.Equal(extra[key], []string{want}) {
					t.Errorf("%s = %q, want %q", key, extra[key], want)
				}
			}
		})
	}
}

func TestForeignTokens(t *testing.T) {
	f, stranger := newFixture(t), newFixture(t)
	compact, _, err := f.issuer.Issue(f.request(Binding{}))
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := stranger.issuer.Issue(f.request(Binding{}))
	if err != nil {
		t.Fatal(err)
	}
	otherIssuer, err := NewIssuer("https://elsewhere", f.keys)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, _, err := otherIssuer.Issue(f.request(Binding{}))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(compact, ".")
	for _, tt := range []struct {
		name, token string
		wantErr     bool
	}{
		{"no token", "opaque", false},
		{"of another issuer", elsewhere, false},
		{"json form", "{" + compact + "}", false},
		{"four parts", compact + ".x", false},
		{"no signature", parts[0] + "." + parts[1] + ".", true},
		{"signed by a stranger", forged, true},
		{"too long", compact + strings.Repeat("A", maxToken), false},
		{"alg none", "eyJhbGciOiJub25lIn0." + parts[1] + ".", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			response, ok, err := f.auth.AuthenticateToken(t.Context(), tt.token)
			if ok || response != nil || (err != nil) != tt.wantErr {
				t.Fatalf("ok %v, error %v", ok, err)
			}
		})
	}
	ctx := authenticator.WithAudiences(t.Context(), authenticator.Audiences{"vault"})
	if _, ok, err := f.auth.AuthenticateToken(ctx, compact); ok || err == nil {
		t.Error("token for the API server accepted for another audience")
	}
}

func TestTokenRequest(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	pod := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "pod-uid"}
	for _, tt := range []struct {
		name    string
		max     time.Duration
		spec    authenticationv1.TokenRequestSpec
		uid     types.UID
		want    int64 // status life in seconds
		life    time.Duration
		wantErr string
	}{
		{name: "defaults", want: 3600, life: time.Hour},
		{name: "shortest", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(600)}, want: 600, life: 10 * time.Minute},
		{name: "too short", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(599)}, wantErr: "may not specify a duration less than 10 minutes"},
		{name: "too long", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(1<<32 + 1)}, wantErr: "may not specify a duration larger than 2^32 seconds"},
		{name: "shortened", max: 2 * time.Hour, spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(86400)}, want: 7200, life: 2 * time.Hour},
		{name: "injected lives on", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(3607), BoundObjectRef: pod}, want: 3607, life: extendedSeconds * time.Second},
		{name: "injected lives on beyond the limit", max: 24 * time.Hour, spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(3607), BoundObjectRef: pod}, want: 3607, life: extendedSeconds * time.Second},
		{name: "136 years shortened", max: 24 * time.Hour, spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(1 << 32)}, want: 86400, life: 24 * time.Hour},
		{name: "at the limit", max: 24 * time.Hour, spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(86400)}, want: 86400, life: 24 * time.Hour},
		{name: "unbound, as if injected", max: time.Hour, spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(3607)}, want: 3600, life: time.Hour},
		{name: "injected for another audience", spec: authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}, ExpirationSeconds: seconds(3607), BoundObjectRef: pod}, want: 3607, life: 3607 * time.Second},
		{name: "pod of another account", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "other"}}, wantErr: "pod running with different serviceaccount name"},
		{name: "pod made anew", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "old"}}, wantErr: "does not match the UID in record"},
		{name: "unknown kind", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "x"}}, wantErr: "cannot bind token to object of type apps/v1, Kind=Deployment"},
		{name: "other account's uid", uid: "old", wantErr: "does not match the UID of the service account"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			rest, err := NewREST(RESTConfig{Issuer: f.issuer, Getter: f.objects, Audiences: []string{issuerURL}, MaxExpiration: tt.max})
			if err != nil {
				t.Fatal(err)
			}
			in := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: tt.uid}, Spec: tt.spec}
			out, err := rest.Create(request.WithNamespace(t.Context(), "ns"), "app", in, nil, nil)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := out.(*authenticationv1.TokenRequest)
			if *got.Spec.ExpirationSeconds != tt.want || got.UID != "sa-uid" || got.Name != "app" {
				t.Errorf("answer %+v", got.Spec)
			}
			audiences := authenticator.Audiences(got.Spec.Audiences)
			ctx := authenticator.WithAudiences(t.Context(), audiences)
			f.now = time.Now().Add(tt.life - time.Minute)
			if _, ok, err := f.auth.AuthenticateToken(ctx, got.Status.Token); !ok {
				t.Errorf("refused before its end: %v", err)
			}
			f.now = time.Now().Add(tt.life + 2*time.Minute) // a minute of leeway
			if _, ok, _ := f.auth.AuthenticateToken(ctx, got.Status.Token); ok {
				t.Error("accepted after its end")
			}
		})
	}
}

func TestDiscovery(t *testing.T) {
	f := newFixture(t)
	d, err := NewDiscovery(issuerURL, "https://192.0.2.7:6443"+KeysPath, f.keys)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.Configuration(w, httptest.NewRequest("GET", ConfigurationPath, nil))
	want := `{"issuer":"https://kubernetes.default.svc.cluster.local","jwks_uri":"https://192.0.2.7:6443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}`
	if w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("configuration %s", w.Body)
	}
	w = httptest.NewRecorder()
	d.Keys(w, httptest.NewRequest("GET", KeysPath, nil))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil {
		t.Fatal(err)
	}
	compact, _, err := f.issuer.Issue(f.request(Binding{}))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := jose.ParseSigned(compact, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	key := set.Key(signed.Signatures[0].Header.KeyID)
	if len(key) != 1 || !key[0].IsPublic() {
		t.Fatalf("keys %s", w.Body)
	}
	if _, err := signed.Verify(key[0]); err != nil {
		t.Error(err)
	}
	if _, err := NewDiscovery("http://plain", "https://x", f.keys); err == nil {
		t.Error("plain http issuer accepted")
	}
}

func FuzzAuthenticateToken(f *testing.F) {
	fix := newFixture(f)
	compact, _, err := fix.issuer.Issue(fix.request(Binding{}))
	if err != nil {
		f.Fatal(err)
	}
	parts := strings.Split(compact, ".")
	for _, seed := range []string{"", ".", "..", compact, parts[0] + "." + parts[1] + ".", "e30.e30.e30", "{}", compact + "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		response, ok, _ := fix.auth.AuthenticateToken(context.Background(), in)
		// Nothing but the issued token may pass; ECDSA signatures cannot be
		// varied in JWS form without breaking header or payload.
		if ok && (response.User.GetName() != "system:serviceaccount:ns:app" || !strings.HasPrefix(in, parts[0]+"."+parts[1]+".")) {
			t.Fatalf("accepted %q", in)
		}
	})
}
