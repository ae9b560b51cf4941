package join

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/keyutil"
)

// signing is an API whose requests are decided at once by decide, which gives a certificate
// or a condition.
func signing(t *testing.T, decide func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequest), objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(objects...)
	client.PrependReactor("create", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		r := action.(clienttesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest).DeepCopy()
		r.Name, r.UID = "csr-1", "1"
		block, _ := pem.Decode(r.Spec.Request)
		x, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return true, nil, err
		}
		decide(x, r)
		return true, r, client.Tracker().Add(r)
	})
	return client
}

func approved(r *certificatesv1.CertificateSigningRequest, der []byte) {
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func clientCertificate(name pkix.Name, from, until time.Duration) *x509.Certificate {
	return &x509.Certificate{Subject: name, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// A machine asks for the certificate of its own node, of a name that is free, and takes no
// other one.
func TestRequest(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	c, a := Cluster{Server: "https://192.0.2.1:6443", CA: own.pem()}, Argument{ID: "abcdef", Secret: someSecret}
	refused := func(reason metav1.StatusReason, code int32) *apierrors.StatusError {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: reason, Code: code, Message: "no"}}
	}
	issue := func(ca *authorityOf, name pkix.Name, key any) func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequest) {
		return func(x *x509.CertificateRequest, r *certificatesv1.CertificateSigningRequest) {
			if key == nil {
				key = x.PublicKey
			}
			approved(r, ca.sign(t, clientCertificate(name, -time.Minute, time.Hour), key))
		}
	}
	for name, tc := range map[string]struct {
		decide func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequest)
		there  []runtime.Object
		nodes  error // of reading the Node
		create error
		want   string
	}{
		"free":            {decide: issue(own, subject("n"), nil)},
		"may not look":    {decide: issue(own, subject("n"), nil), nodes: refused(metav1.StatusReasonForbidden, 403)},
		"taken":           {there: []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, want: "node n is there already"},
		"no token":        {nodes: refused(metav1.StatusReasonUnauthorized, 401), want: "does not take token abcdef"},
		"not for this":    {nodes: refused(metav1.StatusReasonForbidden, 403), create: refused(metav1.StatusReasonForbidden, 403), want: "ask for the certificate of node n"},
		"ended meanwhile": {create: refused(metav1.StatusReasonUnauthorized, 401), want: "does not take token abcdef"},
		"denied": {want: "is denied, reason: NodeExists, message: Node n exists", decide: func(_ *x509.CertificateRequest, r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "NodeExists", Message: "Node n exists"}}
		}},
		"of another authority": {decide: issue(other, subject("n"), nil), want: "issued another certificate"},
		"of another node":      {decide: issue(own, subject("m"), nil), want: "it is of CN=system:node:m"},
		"of administrators":    {decide: issue(own, pkix.Name{CommonName: "system:node:n", Organization: []string{"system:masters"}}, nil), want: "it is of"},
		"of another key":       {decide: issue(own, subject("n"), &newKey(t).PublicKey), want: "it is of another key"},
		"no certificate": {want: "issued another certificate", decide: func(_ *x509.CertificateRequest, r *certificatesv1.CertificateSigningRequest) {
			approved(r, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			client := signing(t, func(x *x509.CertificateRequest, r *certificatesv1.CertificateSigningRequest) {
				asked++
				if x.Subject.CommonName != "system:node:n" || strings.Join(x.Subject.Organization, ",") != "system:nodes" || len(x.DNSNames)+len(x.IPAddresses) > 0 ||
					r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || len(r.Spec.Usages) != 2 {
					t.Errorf("asks for %+v of %+v", x, r.Spec)
				}
				tc.decide(x, r)
			}, tc.there...)
			fail := func(verb, resource string, err error) {
				if err != nil {
					client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
				}
			}
			fail("get", "nodes", tc.nodes)
			fail("create", "certificatesigningrequests", tc.create)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			o := Options{Data: t.TempDir(), Node: "n", Progress: func(string, ...any) {}}
			certPEM, keyPEM, err := request(ctx, client, c, a, &o)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), someSecret) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				if _, err := os.Stat(filepath.Join(o.pki(), keyFile)); asked > 0 && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the key of a request that was refused: %v", err)
				}
				return
			}
			if err != nil || len(certPEM) == 0 || len(keyPEM) == 0 || asked != 1 {
				t.Errorf("%d bytes, %v, asked %d times", len(certPEM), err, asked)
			}
		})
	}
}

// A machine that ends while it waits finds its request again, with the same key; a file that
// has no key, or one that is a link, is no key.
func TestRequestAgain(t *testing.T) {
	ca := newAuthority(t)
	c, a := Cluster{Server: "https://192.0.2.1:6443", CA: ca.pem()}, Argument{ID: "abcdef", Secret: someSecret}
	client := fake.NewClientset()
	asked := []string{}
	client.PrependReactor("create", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked = append(asked, action.(clienttesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest).Name)
		return false, nil, nil
	})
	o := Options{Data: t.TempDir(), Node: "n"}
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(string, ...any) { cancel() } // the machine ends
	if _, _, err := request(ctx, client, c, a, &o); err == nil {
		t.Fatal("it has a certificate")
	}
	path := filepath.Join(o.pki(), keyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("its key: %v, %v", info, err)
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	r, err := requests.Get(t.Context(), asked[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.CreationTimestamp = metav1.Now() // as the API server has it
	block, _ := pem.Decode(r.Spec.Request)
	x, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	approved(r, ca.sign(t, clientCertificate(x.Subject, -time.Minute, time.Hour), x.PublicKey))
	if _, err := requests.UpdateStatus(t.Context(), r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.Progress = func(string, ...any) {}
	limited, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	if certPEM, _, err := request(limited, client, c, a, &o); err != nil || len(certPEM) == 0 || len(asked) != 2 || asked[0] != asked[1] {
		t.Errorf("%d bytes, %v, asked as %q", len(certPEM), err, asked)
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"half a key": func() error { return os.WriteFile(path, have[:len(have)/2], 0o600) },
		"nothing":    func() error { return os.WriteFile(path, nil, 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, keyPEM, err := requestKey(&o); err != nil || bytes.Equal(keyPEM, have) {
			t.Errorf("%s: %v", name, err)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(os.Rename(path, elsewhere), os.Symlink(elsewhere, path)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := requestKey(&o); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("by a link: %v", err)
	}
}

// A former request that gets no certificate is given up; one that may is waited for.
func TestHopeless(t *testing.T) {
	for name, tc := range map[string]struct {
		age       time.Duration
		condition certificatesv1.RequestConditionType
		want      bool
	}{
		"young":              {age: time.Minute},
		"waits for too long": {age: askAnew + time.Minute, want: true},
		"approved long ago":  {age: 2 * askAnew, condition: certificatesv1.CertificateApproved},
		"denied":             {age: time.Minute, condition: certificatesv1.CertificateDenied, want: true},
		"failed":             {age: time.Minute, condition: certificatesv1.CertificateFailed, want: true},
	} {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now().Add(-tc.age))}}
		if tc.condition != "" {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: tc.condition}}
		}
		if got := hopeless(r); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// joined is the data directory of a machine that has joined, with a certificate of that life.
func joined(t *testing.T, ca *authorityOf, node string, from, until time.Duration) Options {
	t.Helper()
	o := Options{Data: t.TempDir(), Node: node, Logger: slog.New(slog.DiscardHandler)}
	key := newKey(t)
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	der := ca.sign(t, clientCertificate(subject(node), from, until), &key.PublicKey)
	if err := os.MkdirAll(o.pki(), 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := certificate.NewFileStore(clientPrefix, o.pki(), o.pki(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Update(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM); err != nil {
		t.Fatal(err)
	}
	if err := writeKubeconfig(Cluster{Server: "https://127.0.0.1:1", CA: ca.pem()}, o, store.CurrentPath()); err != nil {
		t.Fatal(err)
	}
	return o
}

// A machine that joined needs no token, and belongs to that cluster by that name.
func TestOpen(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	o := joined(t, own, "n", -time.Hour, time.Hour)
	c, err := Open(o)
	if err != nil || c.Server() != "https://127.0.0.1:1" {
		t.Fatalf("%+v, %v", c, err)
	}
	if info, err := os.Stat(filepath.Join(o.Data, KubeconfigFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	a := Argument{ID: "abcdef", Secret: someSecret, Server: "127.0.0.1:1", Hash: Hash(own.cert)}
	if _, err := Join(t.Context(), a, o); err != nil { // asks nobody: there is no server
		t.Errorf("joins again: %v", err)
	}
	a.Hash = Hash(other.cert)
	if _, err := Join(t.Context(), a, o); err == nil || !strings.Contains(err.Error(), "belongs to another cluster") {
		t.Errorf("joins another: %v", err)
	}
	renamed := o
	renamed.Node = "m"
	if _, err := Open(renamed); err == nil || errors.Is(err, ErrNotJoined) || !strings.Contains(err.Error(), "joined as system:node:n") {
		t.Errorf("by another name: %v", err)
	}
	for name, o := range map[string]Options{
		"new":     {Data: t.TempDir(), Node: "n"},
		"expired": joined(t, own, "n", -2*time.Hour, -time.Minute),
	} {
		_, err := Open(o)
		if !errors.Is(err, ErrNotJoined) || strings.Contains(err.Error(), "pintle kubectl delete node n") != (name == "expired") {
			t.Errorf("%s: %v", name, err)
		}
	}
	link := Options{Data: t.TempDir(), Node: "n"}
	if err := os.Symlink(filepath.Join(o.Data, KubeconfigFile), filepath.Join(link.Data, KubeconfigFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("by a link: %v", err)
	}
}

// A machine that joined takes a new address of its cluster once the API server has answered
// there, and keeps the one that it has where another answers.
func TestAnotherAddress(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	good := Argument{ID: "abcdef", Secret: someSecret, Hash: Hash(own.cert)}
	for name, tc := range map[string]struct {
		authority *authorityOf // of the server at the new address; nil: it is the address that the machine has
		hash      string
		want      string // part of the error
		asked     bool
	}{
		"the same":        {hash: good.Hash},
		"a new one":       {authority: own, hash: good.Hash, asked: true},
		"of an impostor":  {authority: other, hash: good.Hash, asked: true, want: "joined at https://127.0.0.1:1, and --join has another address"},
		"another cluster": {authority: other, hash: Hash(other.cert), want: "belongs to another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			o, a, asked := joined(t, own, "n", -time.Hour, time.Hour), good, atomic.Bool{}
			a.Server, a.Hash = "127.0.0.1:1", tc.hash
			if tc.authority != nil {
				a.Server = api(t, tc.authority.serving(t), func(w http.ResponseWriter, _ *http.Request, _ int) {
					asked.Store(true)
					tell(t, w, infoOf(t, kubeconfigWith(t, own.pem()), good))
				})
			}
			before := "https://127.0.0.1:1"
			c, err := Join(t.Context(), a, o)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), someSecret) {
					t.Errorf("%v, want %q", err, tc.want)
				}
			} else if before = a.url(); err != nil || c.Server() != before {
				t.Errorf("%+v, %v", c, err)
			}
			if asked.Load() != tc.asked {
				t.Errorf("the server was asked: %v", !tc.asked)
			}
			if again, err := Open(o); err != nil || again.Server() != before {
				t.Errorf("from then on: %+v, %v, want %s", again, err, before)
			}
		})
	}
}

// The client certificate is renewed before it ends, and kept; who may not be asked for one
// any more says so.
func TestRenewal(t *testing.T) {
	ca := newAuthority(t)
	o := joined(t, ca, "n", -100*time.Minute, time.Minute) // nearly all of its life is over
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	c.client = signing(t, func(x *x509.CertificateRequest, r *certificatesv1.CertificateSigningRequest) {
		approved(r, ca.sign(t, clientCertificate(x.Subject, -time.Minute, 10*time.Hour), x.PublicKey))
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	limit := time.After(2 * time.Minute)
	for time.Until(c.rotating.Current().Leaf.NotAfter) < time.Hour {
		select {
		case <-limit:
			t.Fatal("it is not renewed")
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again, err := Open(o)
	if err != nil || !again.rotating.Current().Leaf.Equal(c.rotating.Current().Leaf) {
		t.Errorf("the next start has another one: %v", err)
	}
}

// A kubeconfig has to be the node's, and to know whom it speaks to.
func TestKubeconfig(t *testing.T) {
	ca := newAuthority(t)
	o := Options{Data: t.TempDir(), Node: "n", Logger: slog.New(slog.DiscardHandler)}
	for want, cfg := range map[string]*rest.Config{
		"insecure-skip-tls-verify":     {Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		"has no certificate-authority": {Host: "https://127.0.0.1:1"},
	} {
		if _, err := FromKubeconfig(cfg, nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	cfg := &rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem()}}
	c, err := FromKubeconfig(cfg, ca.pem(), o)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		who  authenticationv1.UserInfo
		fine bool
	}{
		"the node":        {authenticationv1.UserInfo{Username: "system:node:n", Groups: []string{"system:nodes", "system:authenticated"}}, true},
		"without a group": {authenticationv1.UserInfo{Username: "system:node:n"}, false},
		"another node":    {authenticationv1.UserInfo{Username: "system:node:m", Groups: []string{"system:nodes"}}, false},
		"administrator":   {authenticationv1.UserInfo{Username: "kubernetes-admin", Groups: []string{"system:masters"}}, false},
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: tc.who}}, nil
		})
		c.client = client
		if err := c.Verify(t.Context()); (err == nil) != tc.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Clients of a node with a kubeconfig are those of the authority that the API server names, or
// of a file; not of the one that signed the API server's certificate.
func TestClientAuthority(t *testing.T) {
	server, clients := newAuthority(t), newAuthority(t)
	named := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, Data: data}
	}
	for name, tc := range map[string]struct {
		file  []byte
		there []runtime.Object
		fails []error // of the first reads
		want  string  // part of the error
	}{
		"named":           {there: []runtime.Object{named(map[string]string{"client-ca-file": string(clients.pem())})}},
		"named later":     {there: []runtime.Object{named(map[string]string{"client-ca-file": string(clients.pem())})}, fails: []error{apierrors.NewInternalError(errors.New("not now"))}},
		"a file":          {file: clients.pem()},
		"none":            {want: "not found"},
		"may not look":    {fails: []error{apierrors.NewForbidden(corev1.Resource("configmaps"), "x", errors.New("no"))}, want: "forbidden"},
		"without the key": {there: []runtime.Object{named(map[string]string{"requestheader-client-ca-file": string(clients.pem())})}, want: "key client-ca-file"},
		"no certificate":  {there: []runtime.Object{named(map[string]string{"client-ca-file": "x"})}, want: "key client-ca-file"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Data: t.TempDir(), Node: "n", Logger: slog.New(slog.DiscardHandler)}
				c, err := FromKubeconfig(&rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAData: server.pem()}}, tc.file, o)
				if err != nil {
					t.Fatal(err)
				}
				client := fake.NewClientset(tc.there...)
				client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "system:node:n", Groups: []string{"system:nodes"}}}}, nil
				})
				fails := tc.fails
				client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					if len(fails) == 0 {
						return false, nil, nil
					}
					err := fails[0]
					fails = fails[1:]
					return true, nil, err
				})
				c.client = client
				err = c.Verify(t.Context())
				if tc.want != "" {
					if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--client-ca-file") {
						t.Errorf("%v, want %q and what to do", err, tc.want)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if want := x509.NewCertPool(); !want.AppendCertsFromPEM(clients.pem()) || !c.ClientCAs().Equal(want) {
					t.Error("clients of another authority are taken")
				}
			})
		})
	}
}

// Without a certificate nobody is served.
func TestServing(t *testing.T) {
	ca := newAuthority(t)
	c, err := Open(joined(t, ca, "n", -time.Minute, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if cert, err := c.ServingCertificate(nil); err == nil || cert != nil {
		t.Errorf("%v, %v", cert, err)
	}
	c.client = signing(t, func(x *x509.CertificateRequest, r *certificatesv1.CertificateSigningRequest) {
		if r.Spec.SignerName != certificatesv1.KubeletServingSignerName || len(x.DNSNames) != 1 || x.DNSNames[0] != "n" || len(x.IPAddresses) != 1 {
			t.Errorf("asks for %+v of %s", x, r.Spec.SignerName)
		}
		approved(r, ca.sign(t, &x509.Certificate{
			Subject: x.Subject, DNSNames: x.DNSNames, IPAddresses: x.IPAddresses, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, x.PublicKey))
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, []string{"n"}, []net.IP{net.IPv4(192, 0, 2, 11)}) }()
	limit := time.After(2 * time.Minute)
	for {
		if cert, err := c.ServingCertificate(nil); err == nil && cert.Leaf.Subject.CommonName == "system:node:n" {
			break
		}
		select {
		case <-limit:
			t.Fatal("there is no certificate")
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
