package join

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
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/jws"
)

// authorityOf is a CA for tests.
type authorityOf struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authorityOf {
	t.Helper()
	key := newKey(t)
	x := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, x, x, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authorityOf{cert, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authorityOf) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// sign issues a certificate for a key.
func (a *authorityOf) sign(t *testing.T, x *x509.Certificate, public any) []byte {
	t.Helper()
	if x.SerialNumber == nil {
		x.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	der, err := x509.CreateCertificate(rand.Reader, x, a.cert, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// serving is a server's certificate for 127.0.0.1.
func (a *authorityOf) serving(t *testing.T) tls.Certificate {
	t.Helper()
	key := newKey(t)
	der := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// kubeconfigWith names authorities.
func kubeconfigWith(t *testing.T, cas ...[]byte) string {
	t.Helper()
	data, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: "https://192.0.2.1:6443", CertificateAuthorityData: bytes.Join(cas, nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func infoOf(t *testing.T, content string, a Argument) *corev1.ConfigMap {
	t.Helper()
	signature, err := jws.ComputeDetachedSignature(content, a.ID, a.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: map[string]string{"kubeconfig": content, "jws-kubeconfig-" + a.ID: signature}}
}

// api is an API server of which only cluster-info is asked. answer gets the number of the
// request.
func api(t *testing.T, cert tls.Certificate, answer func(w http.ResponseWriter, r *http.Request, n int)) (server string) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		at := n
		mu.Unlock()
		if r.Header.Get("Authorization") != "" || r.TLS == nil || len(r.TLS.PeerCertificates) > 0 {
			t.Error("a credential was shown to a server that is not known")
		}
		if r.URL.Path != "/api/v1/namespaces/kube-public/configmaps/cluster-info" {
			t.Errorf("asked for %s", r.URL)
		}
		answer(w, r, at)
	}))
	s.Config.ErrorLog = log.New(&bytes.Buffer{}, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "https://")
}

func tell(t *testing.T, w http.ResponseWriter, info *corev1.ConfigMap) {
	t.Helper()
	if err := json.NewEncoder(w).Encode(info); err != nil {
		t.Error(err)
	}
}

// A machine believes the API server whose authority has the hash, and which the token signed,
// and nobody else.
func TestDiscover(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	cert, foreign := own.serving(t), other.serving(t)
	good := Argument{ID: "abcdef", Secret: someSecret, Hash: Hash(own.cert)}
	wrongSecret, wrongHash, another := good, good, good
	wrongSecret.Secret, wrongHash.Hash, another.ID = "fedcba9876543210", Hash(other.cert), "zzzzzz"
	content := kubeconfigWith(t, own.pem())
	signed := func(a Argument, content string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) { tell(t, w, infoOf(t, content, a)) }
	}
	for name, c := range map[string]struct {
		a      Argument
		cert   tls.Certificate
		answer func(http.ResponseWriter, *http.Request, int)
		want   string // part of the error; empty: it joins
		again  bool   // the error is no final one
	}{
		"good":                     {a: good, cert: cert, answer: signed(good, content)},
		"beside another authority": {a: good, cert: cert, answer: signed(good, kubeconfigWith(t, other.pem(), own.pem()))},
		"signed by another token":  {a: wrongSecret, cert: cert, answer: signed(good, content), want: "is not that of the token abcdef"},
		"not signed by the token":  {a: another, cert: cert, answer: signed(good, content), want: "token zzzzzz has not signed", again: true},
		"another authority":        {a: wrongHash, cert: cert, answer: signed(good, content), want: "somebody is between"},
		"authority of an impostor": {a: good, cert: foreign, answer: signed(good, kubeconfigWith(t, other.pem())), want: "somebody is between"},
		"impostor with a copy":     {a: good, cert: foreign, answer: signed(good, content), want: "its certificate is not of the authority"},
		"expired name":             {a: good, cert: cert, answer: signed(good, "no: kubeconfig: at all"), want: "cluster-info"},
		"no authority":             {a: good, cert: cert, answer: signed(good, kubeconfigWith(t)), want: "somebody is between"},
		"another one the next time": {a: good, cert: cert, want: "is another one when it is asked for by TLS", answer: func(w http.ResponseWriter, _ *http.Request, n int) {
			content := content
			if n%2 == 0 {
				content = kubeconfigWith(t, own.pem(), other.pem())
			}
			tell(t, w, infoOf(t, content, good))
		}},
		"no ConfigMap": {a: good, cert: cert, want: "404", again: true, answer: func(w http.ResponseWriter, r *http.Request, _ int) { http.NotFound(w, r) }},
		"not for all":  {a: good, cert: cert, want: "403", again: true, answer: func(w http.ResponseWriter, _ *http.Request, _ int) { http.Error(w, "", http.StatusForbidden) }},
		"empty":        {a: good, cert: cert, want: "has no key kubeconfig", again: true, answer: func(w http.ResponseWriter, _ *http.Request, _ int) { tell(t, w, &corev1.ConfigMap{}) }},
		"not JSON":     {a: good, cert: cert, want: "is no ConfigMap", answer: func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write([]byte("<html>")) }},
		"without an end": {a: good, cert: cert, want: "is longer than", answer: func(w http.ResponseWriter, _ *http.Request, _ int) {
			_, _ = w.Write(bytes.Repeat([]byte(" "), maxAnswer+1))
		}},
		"elsewhere": {a: good, cert: cert, want: "302", again: true, answer: func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.a.Server = api(t, c.cert, c.answer)
			found, err := discover(t.Context(), c.a)
			if c.want == "" {
				if err != nil || found.Server != "https://"+c.a.Server || !bytes.Equal(found.CA, own.pem()) {
					t.Errorf("%+v, %v", found, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.a.Secret) {
				t.Fatalf("%+v, %v, want %q", found, err, c.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if cancel(); !c.again {
				// A final answer needs no second question.
				if _, err := Discover(t.Context(), c.a); err == nil {
					t.Error("it joins in the end")
				}
			} else if _, err := Discover(ctx, c.a); err == nil {
				t.Error("it joins in the end")
			}
		})
	}
	good.Server = "127.0.0.1:1"
	if _, err := discover(t.Context(), good); err == nil || !strings.Contains(err.Error(), "was not reached") {
		t.Errorf("without a server: %v", err)
	}
}
