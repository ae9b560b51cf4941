package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

// csr is a request by a key, for a client's certificate.
func csr(t testing.TB, name string, key *ecdsa.PrivateKey, template x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

func newECDSA(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// answered waits for the certificate of a request, or for its failure.
func answered(t testing.TB, e *env, name string) (out *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	eventually(t, func(ctx context.Context) (err error) {
		out, err = e.client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(out.Status.Certificate) == 0 && !slices.ContainsFunc(out.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateFailed
		}) {
			err = fmt.Errorf("request %s has no certificate and has not failed: %+v", name, out.Status.Conditions)
		}
		return err
	})
	return out
}

func serialOf(certPEM []byte) (string, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return "", errors.New("no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", cert.SerialNumber), nil
}

// TestCertificateRequests: who is approved gets a certificate that is good until it is
// revoked. Nobody gets one of system:masters, or of what its signer does not sign.
func TestCertificateRequests(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, "", data)
	requests := e.client.CertificatesV1().CertificateSigningRequests()
	create := func(t *testing.T, r *certificatesv1.CertificateSigningRequest) error {
		_, err := requests.Create(bound(t), r, metav1.CreateOptions{})
		return err
	}
	approve := func(t *testing.T, r *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
		t.Helper()
		if err := create(t, r); err != nil {
			t.Fatal(err)
		}
		e.kubectl(t, "certificate", "approve", r.Name)
		return answered(t, e, r.Name)
	}

	t.Run("a client", func(t *testing.T) {
		key := newECDSA(t)
		r := csr(t, "jane", key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"devs"}}})
		seconds := int32(3600)
		r.Spec.ExpirationSeconds = &seconds
		certificate := approve(t, r).Status.Certificate
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		cfg := rest.AnonymousClientConfig(e.cfg)
		cfg.CertData, cfg.KeyData = certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		client := kubernetes.NewForConfigOrDie(cfg)
		who := func() (*authenticationv1.SelfSubjectReview, error) {
			return client.AuthenticationV1().SelfSubjectReviews().Create(bound(t), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		}
		if me, err := who(); err != nil || me.Status.UserInfo.Username != "jane" || !slices.Contains(me.Status.UserInfo.Groups, "devs") {
			t.Fatalf("the certificate stands for %+v, %v", me, err)
		}
		block, _ := pem.Decode(certificate)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || cert.NotAfter.Sub(cert.NotBefore) != time.Hour+5*time.Minute {
			t.Errorf("good from %v to %v, %v", cert.NotBefore, cert.NotAfter, err)
		}
		contains(t, pintle(t, 0, "pki", "list", "--data", data), "csr-", "jane, devs", "issued")
		contains(t, pintle(t, 0, "pki", "revoke", "--data", data, "--serial", fmt.Sprintf("%x", cert.SerialNumber)[:12]), "certificate of jane revoked", "in force\n")
		if _, err := who(); !apierrors.IsUnauthorized(err) {
			t.Errorf("revoked and still good: %v", err)
		}
	})
	t.Run("an administrator", func(t *testing.T) {
		r := csr(t, "evil", newECDSA(t), x509.CertificateRequest{Subject: pkix.Name{CommonName: "m", Organization: []string{"devs", "system:masters"}}})
		if err := create(t, r); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed") {
			t.Errorf("system:masters may be asked for: %v", err)
		}
		// Where another signer's name hides it, the signer does not sign.
		r.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		failed := approve(t, r)
		if c := failed.Status.Conditions[len(failed.Status.Conditions)-1]; c.Type != certificatesv1.CertificateFailed || c.Reason != "SignerValidationFailure" ||
			c.Message != "subject organization is not system:nodes" || len(failed.Status.Certificate) > 0 {
			t.Errorf("%+v", failed.Status)
		}
	})
	t.Run("other usages", func(t *testing.T) {
		r := csr(t, "serving", newECDSA(t), x509.CertificateRequest{Subject: pkix.Name{CommonName: "m"}})
		r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
		failed := approve(t, r)
		if c := failed.Status.Conditions[1]; c.Type != certificatesv1.CertificateFailed || c.Message != "invalid usage for client certificate: server auth" {
			t.Errorf("%+v", failed.Status)
		}
		contains(t, e.kubectl(t, "get", "csr", "serving"), "Approved,Failed")
	})
	t.Run("the API server", func(t *testing.T) {
		r := csr(t, "impostor", newECDSA(t), x509.CertificateRequest{
			Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}, DNSNames: []string{"n", "*.default.svc"},
		})
		r.Spec.SignerName, r.Spec.Usages[1] = certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth
		failed := approve(t, r)
		if c := failed.Status.Conditions[1]; !strings.Contains(c.Message, "kubernetes.default.svc, which is the API server") {
			t.Errorf("%+v", failed.Status)
		}
	})
	t.Run("the bounds", func(t *testing.T) {
		r := csr(t, "large", newECDSA(t), x509.CertificateRequest{Subject: pkix.Name{CommonName: "m"}})
		r.Spec.Request = append(r.Spec.Request, make([]byte, 4<<20)...)
		if err := create(t, r); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("4 MB: %v", err)
		}
		names := csr(t, "names", newECDSA(t), x509.CertificateRequest{Subject: pkix.Name{CommonName: "m"}, DNSNames: slices.Repeat([]string{strings.Repeat("a", 50) + ".example.com"}, 2000)})
		failed := approve(t, names)
		if c := failed.Status.Conditions[1]; !strings.Contains(c.Message, "want at most 65536") {
			t.Errorf("%+v", failed.Status)
		}
		// To check this signature would take minutes.
		r = csr(t, "slow", newECDSA(t), x509.CertificateRequest{})
		r.Spec.Request = hugeKey(t, 4<<20)
		if err := create(t, r); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "RSA keys have at most 8192 bits") {
			t.Errorf("a key of four million bits: %v", err)
		}
	})
}

// hugeKey is a request by an RSA key that nobody has.
func hugeKey(t *testing.T, bits uint) []byte {
	t.Helper()
	n := new(big.Int).Lsh(big.NewInt(1), bits)
	spki, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: n.Sub(n, big.NewInt(5)), E: 1<<31 - 1})
	if err != nil {
		t.Fatal(err)
	}
	type info struct {
		Version    int
		Subject    asn1.RawValue
		Key        asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	body, err := asn1.Marshal(info{Subject: asn1.RawValue{FullBytes: []byte{0x30, 0}}, Key: asn1.RawValue{FullBytes: spki}})
	if err != nil {
		t.Fatal(err)
	}
	der, err := asn1.Marshal(struct {
		Info      asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: body}, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue},
		asn1.BitString{Bytes: make([]byte, bits/8), BitLength: int(bits)}})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestThousandRequests: a kernel that is killed while it signs leaves no certificate that
// is not in the book, and goes on where it ended. One that is not to sign does not.
func TestThousandRequests(t *testing.T) {
	t.Parallel()
	const many = 1000
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, "", data, "controllers.disable=[csrsigning]")
	key := newECDSA(t)
	cfg := rest.CopyConfig(e.cfg)
	cfg.QPS = -1
	requests := kubernetes.NewForConfigOrDie(cfg).CertificatesV1().CertificateSigningRequests()
	var all sync.WaitGroup
	names := make(chan string, many)
	for i := range many {
		names <- fmt.Sprintf("r-%d", i)
	}
	close(names)
	for range 8 {
		all.Go(func() {
			for name := range names {
				made, err := requests.Create(bound(t), csr(t, name, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}), metav1.CreateOptions{})
				if err == nil {
					made.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
					_, err = requests.UpdateApproval(bound(t), name, made, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	e.stop(t)
	inBook := func() map[string]bool {
		out := map[string]bool{}
		for _, c := range listPKI(t, data).Certificates {
			if strings.HasPrefix(c.Name, "csr-") && c.State == "issued" {
				out[c.Serial] = true
			}
		}
		return out
	}
	if n := len(inBook()); n != 0 || t.Failed() {
		t.Fatalf("%d certificates of a kernel that does not sign", n)
	}
	// issued are the serial numbers that the API tells.
	issued := func(ctx context.Context, e *env) (map[string]bool, error) {
		list, err := e.client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		out := map[string]bool{}
		for _, r := range list.Items {
			if len(r.Status.Certificate) > 0 {
				serial, err := serialOf(r.Status.Certificate)
				if err != nil {
					return nil, err
				}
				out[serial] = true
			}
		}
		return out, nil
	}
	reaches := func(e *env, n int) (last map[string]bool) {
		t.Helper()
		eventually(t, func(ctx context.Context) (err error) {
			if last, err = issued(ctx, e); err == nil && len(last) < n {
				err = fmt.Errorf("%d certificates, want %d", len(last), n)
			}
			return err
		})
		return last
	}
	e = minimal(t, "", data)
	reaches(e, 50)
	e.Kill()
	e = minimal(t, "", data)
	have, book := reaches(e, many), inBook()
	if len(have) != many {
		t.Errorf("%d requests have %d certificates", many, len(have))
	}
	for serial := range have {
		if !book[serial] {
			t.Errorf("certificate %s is not in the book", serial)
		}
	}
	if more := len(book) - len(have); more > 20 {
		t.Errorf("the book has %d certificates that nobody has", more)
	}
}

// TestCertificateRequestsOfTwoKernels: of the kernels of one cluster, the one that leads
// signs, and records. What it signed is good at the other, until it is revoked there.
func TestCertificateRequestsOfTwoKernels(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)
	dirs := []string{filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")}
	var kernels []*env
	for i, address := range []string{cluster.NodeIP, secondIP} {
		e := s.launch(t, fmt.Sprintf("csr%d", i+1), dirs[i], address, 0)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of %s ends with:\n%s", e.Name, e.Log(40))
			}
			select {
			case <-e.Exited():
			default:
				end(t, e)
			}
		})
		kernels = append(kernels, e)
	}
	key := newECDSA(t)
	ask := func(e *env, name string) (serial string, certificate []byte) {
		t.Helper()
		if _, err := e.client.CertificatesV1().CertificateSigningRequests().Create(bound(t), csr(t, name, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.kubectl(t, "certificate", "approve", name)
		certificate = answered(t, e, name).Status.Certificate
		serial, err := serialOf(certificate)
		if err != nil {
			t.Fatal(err)
		}
		return serial, certificate
	}
	// books are how many of the directories have a record.
	books := func(serial string) (n int) {
		for _, dir := range dirs {
			if slices.ContainsFunc(listPKI(t, dir).Certificates, func(c struct{ Name, Serial, State string }) bool {
				return c.Serial == serial && strings.HasPrefix(c.Name, "csr-")
			}) {
				n++
			}
		}
		return n
	}
	serial, certificate := ask(kernels[1], "jane")
	if n := books(serial); n != 1 {
		t.Errorf("%d kernels have recorded it", n)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	who := func(e *env) error {
		cfg := rest.AnonymousClientConfig(e.cfg)
		cfg.CertData, cfg.KeyData = certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		_, err := kubernetes.NewForConfigOrDie(cfg).AuthenticationV1().SelfSubjectReviews().Create(bound(t), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err
	}
	for _, e := range kernels {
		if err := who(e); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	pintle(t, 0, "pki", "revoke", "--data", dirs[1], "--serial", serial)
	for _, e := range kernels {
		eventually(t, func(context.Context) error {
			if err := who(e); !apierrors.IsUnauthorized(err) {
				return fmt.Errorf("%s takes a revoked certificate: %v", e.Name, err)
			}
			return nil
		})
	}
	// The other takes over.
	kernels[0].Kill()
	if serial, _ := ask(kernels[1], "joe"); books(serial) != 1 {
		t.Error("the kernel that took over has not recorded it")
	}
}
