package api_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"

	"math/big"
	"net/http"

	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/etcd"
)

// member runs one API server of a cluster on etcd; stop is in order.
func member(t *testing.T, url, dir string, runtimeConfig map[string]string) (s *api.Server, stop func()) {
	t.Helper()
	backend, err := etcd.Open(t.Context(), etcd.Config{Servers: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	if err := backend.ShareAuthority(t.Context(), filepath.Join(dir, "pki"), bytes.Repeat([]byte("k"), 32)); err != nil {
		t.Fatal(err)
	}
	if s, err = api.New(api.Config{DataDir: dir, Backend: backend, AdvertiseAddress: "127.0.0.1", RuntimeConfig: runtimeConfig}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-served:
		cancel()
		t.Fatalf("server ended before it was ready: %v", err)
	}
	return s, func() {
		cancel()
		if err := errors.Join(<-served, backend.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestMixedVersions: of two servers on one etcd each answers for what only the other
// serves, as the user who asked, and nobody else gets in by the way between them.
func TestMixedVersions(t *testing.T) {
	t.Parallel()
	store, err := cluster.StartEtcd(t.Context(), nil, t.TempDir(), false)
	if errors.Is(err, cluster.ErrNoEtcd) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer store.Stop()
	newDir, oldDir := t.TempDir(), t.TempDir()
	newer, stopNewer := member(t, store.URL, newDir, map[string]string{"node.k8s.io/v1": "true"})
	older, stopOlder := member(t, store.URL, oldDir, map[string]string{"certificates.k8s.io/v1": "false", "autoscaling/v2": "false"})
	defer stopOlder()
	overOlder := asSuperAdmin(t, older)

	// From the first moment: the older one waited for the discovery of the newer.
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "h"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MaxReplicas: 2, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "x", APIVersion: "apps/v1"},
	}}
	if _, err := overOlder.AutoscalingV2().HorizontalPodAutoscalers("default").Create(t.Context(), scaler, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a kind that only the other serves: %v", err)
	}

	t.Run("as the user", func(t *testing.T) {
		if _, err := overOlder.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "jane"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "jane"}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		as := func(user string) *kubernetes.Clientset {
			cfg := must(kubeconfig(older))
			cfg.Impersonate = rest.ImpersonationConfig{UserName: user, UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"scopes": {"some thing"}}}
			return kubernetes.NewForConfigOrDie(cfg)
		}
		key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "any"}}, key))
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: "example.com/s", Usages: []certificatesv1.KeyUsage{"client auth"},
		}}
		if _, err := as("nobody").CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("who may not: %v", err)
		}
		var got *certificatesv1.CertificateSigningRequest
		waitFor(t, func() bool { // the binding is to be seen at both
			got, err = as("jane").CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
			return err == nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := got.Spec; s.Username != "jane" || s.UID != "7" || !slices.Contains(s.Groups, "devs") || !slices.Equal(s.Extra["scopes"], []string{"some thing"}) {
			t.Errorf("it is from %+v", s)
		}
		// Its status, by way of a patch; and a watch.
		w, err := overOlder.CertificatesV1().CertificateSigningRequests().Watch(t.Context(), metav1.ListOptions{ResourceVersion: got.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if err := overOlder.CertificatesV1().CertificateSigningRequests().Delete(t.Context(), "r", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); e.Type != "DELETED" {
			t.Errorf("the watch has %v", e)
		}
	})

	t.Run("discovery", func(t *testing.T) {
		ask := asker(t, older)
		const v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		if _, all := ask("GET", "/apis", "", "Accept", v2); !bytes.Contains(all, []byte("certificates.k8s.io")) {
			t.Error("what the other serves is not discovered")
		}
		if _, own := ask("GET", "/apis", "", "Accept", v2+";profile=nopeer"); bytes.Contains(own, []byte("certificates.k8s.io")) {
			t.Error("what the other serves is discovered as the server's own")
		}
	})

	t.Run("not served by any", func(t *testing.T) {
		ask := asker(t, older)
		if res, _ := ask("GET", "/apis/resource.k8s.io/v1alpha9/things", ""); res.StatusCode != http.StatusNotFound {
			t.Error(res.Status)
		}
	})

	t.Run("who wants in", func(t *testing.T) {
		certOf := func(dir, user string) *tls.Certificate {
			p := must(pki.Open(pki.Config{Dir: dir}))
			pair := must(p.Client(strings.ReplaceAll(user, ":", "-"), user, "system:masters"))
			c := must(tls.X509KeyPair(pair.CertPEM, pair.KeyPEM))
			return &c
		}
		front := func(dir string) *tls.Certificate {
			path := filepath.Join(dir, "pki", "front-proxy", "front-proxy-client")
			c := must(tls.LoadX509KeyPair(path+".crt", path+".key"))
			return &c
		}
		root := map[string]string{"X-Kubernetes-Peer-Proxied": "true", "X-Remote-User": "root", "X-Remote-Group": "system:masters"}
		rogue := filepath.Join(t.TempDir(), "pki")
		for name, test := range map[string]struct {
			cert    *tls.Certificate
			headers map[string]string
			user    string
			status  int
		}{
			"a member":                                {front(oldDir), root, "root", 201},
			"a member that says nobody":               {front(oldDir), map[string]string{"X-Kubernetes-Peer-Proxied": "true"}, "", 401},
			"a member without the header":             {front(oldDir), map[string]string{"X-Remote-User": "root"}, "", 401},
			"nobody":                                  {nil, root, "", 403},
			"a client":                                {certOf(filepath.Join(newDir, "pki"), "dave"), root, "dave", 201},
			"a client that is called so":              {certOf(filepath.Join(newDir, "pki"), pki.FrontProxyName), root, pki.FrontProxyName, 201},
			"another authority":                       {certOf(rogue, pki.FrontProxyName), root, "", 401},
			"another authority, of the members' name": {selfSignedMember(t), root, "", 401},
		} {
			user, status := selfReview(t, newer, test.cert, test.headers)
			if user != test.user || status != test.status {
				t.Errorf("%s: is %q, status %d; want %q, %d", name, user, status, test.user, test.status)
			}
		}
		// A client that says it comes from a peer is not sent on.
		res, _ := asker(t, older)("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "", "X-Kubernetes-Peer-Proxied", "true")
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("sent on: %s", res.Status)
		}
	})

	t.Run("a Lease of nobody", func(t *testing.T) {
		holder, now := "evil", metav1.NewMicroTime(time.Now())
		for _, name := range []string{"apiserver-evil", "127.0.0.1:1", "..%2f"} {
			_, err := overOlder.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}, Annotations: map[string]string{"kubernetes.io/peer-advertise-address": "127.0.0.1:1"}},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: new(int32(3600))},
			}, metav1.CreateOptions{})
			if name == "apiserver-evil" && err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			if _, err := overOlder.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "h", metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})

	// Its objects stay where no server that lives knows them.
	stopNewer()
	waitFor(t, func() bool {
		_, err := overOlder.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "h", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	again, stopAgain := member(t, store.URL, newDir, nil)
	defer stopAgain()
	if _, err := asSuperAdmin(t, again).AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "h", metav1.GetOptions{}); err != nil {
		t.Errorf("after the newer server was away: %v", err)
	}
	waitFor(t, func() bool {
		_, err := overOlder.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "h", metav1.GetOptions{})
		return err == nil
	})
}

// selfSignedMember is a certificate of the members' name that is its own authority.
func selfSignedMember(t *testing.T) *tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: pki.FrontProxyName}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	return &tls.Certificate{Certificate: [][]byte{must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))}, PrivateKey: key}
}

// selfReview asks a server who one is.
func selfReview(t *testing.T, s *api.Server, cert *tls.Certificate, headers map[string]string) (user string, status int) {
	t.Helper()
	config := &tls.Config{RootCAs: s.PKI().CAPool()}
	if cert != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req := must(http.NewRequest(http.MethodPost, s.URL()+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		strings.NewReader(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`)))
	req.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return "", res.StatusCode
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	if err := json.NewDecoder(res.Body).Decode(&review); err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username, res.StatusCode
}
