package csrsigning

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/api/auth/pki"
)

const (
	client    = certificatesv1.KubeAPIServerClientSignerName
	kubelet   = certificatesv1.KubeAPIServerClientKubeletSignerName
	serving   = certificatesv1.KubeletServingSignerName
	legacy    = "kubernetes.io/legacy-unknown"
	signature = certificatesv1.UsageDigitalSignature
	encipher  = certificatesv1.UsageKeyEncipherment
	asClient  = certificatesv1.UsageClientAuth
	asServer  = certificatesv1.UsageServerAuth
)

type usages = []certificatesv1.KeyUsage

func node(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
	if change != nil {
		change(r)
	}
	return r
}

// What each signer signs, in upstream's words.
func TestRules(t *testing.T) {
	withDNS := func(r *x509.CertificateRequest) { r.DNSNames = []string{"n"} }
	for _, tt := range []struct {
		name, signer string
		r            *x509.CertificateRequest
		usages       usages
		want         string
	}{
		{"client", client, node(nil), usages{asClient}, ""},
		{"client with all usages", client, node(nil), usages{encipher, asClient, signature}, ""},
		{"client that serves", client, node(nil), usages{asClient, asServer}, "invalid usage for client certificate: server auth"},
		{"client without the usage", client, node(nil), usages{signature}, "missing required usage for client certificate: client auth"},
		{"kubelet", kubelet, node(nil), usages{signature, encipher, asClient}, ""},
		{"kubelet without RSA", kubelet, node(nil), usages{asClient, signature}, ""},
		{"kubelet that serves", kubelet, node(nil), usages{signature, asClient, asServer}, "usages did not match [digital signature key encipherment client auth]"},
		{"kubelet without signature", kubelet, node(nil), usages{encipher, asClient}, "usages did not match [digital signature key encipherment client auth]"},
		{"another group too", kubelet, node(func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		}), usages{signature, asClient}, "subject organization is not system:nodes"},
		{"another user", kubelet, node(func(r *x509.CertificateRequest) { r.Subject.CommonName = "admin" }), usages{signature, asClient}, "subject common name does not begin with system:node:"},
		{"kubelet with a name", kubelet, node(withDNS), usages{signature, asClient}, "DNS subjectAltNames are not allowed"},
		{"kubelet with an address", kubelet, node(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{192, 0, 2, 1}} }), usages{signature, asClient}, "IP subjectAltNames are not allowed"},
		{"kubelet with mail", kubelet, node(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} }), usages{signature, asClient}, "Email subjectAltNames are not allowed"},
		{"kubelet with a URI", kubelet, node(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe"}} }), usages{signature, asClient}, "URI subjectAltNames are not allowed"},
		{"serving", serving, node(withDNS), usages{signature, encipher, asServer}, ""},
		{"serving without RSA", serving, node(withDNS), usages{signature, asServer}, ""},
		{"serving without a name", serving, node(nil), usages{signature, asServer}, "DNS or IP subjectAltName is required"},
		{"serving a client", serving, node(withDNS), usages{signature, asServer, asClient}, "usages did not match [digital signature key encipherment server auth]"},
		{"serving another", serving, node(func(r *x509.CertificateRequest) { withDNS(r); r.Subject.CommonName = "n" }), usages{signature, asServer}, "subject common name does not begin with system:node:"},
		{"serving another group", serving, node(func(r *x509.CertificateRequest) { withDNS(r); r.Subject.Organization = nil }), usages{signature, asServer}, "subject organization is not system:nodes"},
		{"legacy", legacy, &x509.CertificateRequest{}, usages{certificatesv1.UsageCodeSigning}, ""},
	} {
		got := ""
		if err := signers[tt.signer](tt.r, tt.usages); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUsages(t *testing.T) {
	for u := range keyUsages {
		if extKeyUsages[u] != 0 {
			t.Errorf("%s is in both tables", u)
		}
	}
	usage, extended, err := usagesOf(usages{certificatesv1.UsageSMIME, asServer, certificatesv1.UsageEmailProtection, signature, certificatesv1.UsageSigning, certificatesv1.UsageCertSign})
	if err != nil || usage != x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign || !slices.Equal(extended, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageEmailProtection}) {
		t.Errorf("%b, %v, %v", usage, extended, err)
	}
	if _, _, err := usagesOf(usages{asClient, "time travel"}); err == nil || err.Error() != `unrecognized usage values: ["time travel"]` {
		t.Error(err)
	}
}

func TestValidity(t *testing.T) {
	now := time.Now()
	seconds := func(d time.Duration) *int32 { s := int32(d / time.Second); return &s }
	for _, tt := range []struct {
		most    time.Duration
		seconds *int32
		want    time.Duration // from now on
	}{
		{24 * time.Hour, nil, 24*time.Hour - backdate},
		{24 * time.Hour, seconds(8 * time.Hour), 8*time.Hour - backdate},
		{24 * time.Hour, seconds(8*time.Hour - time.Second), 8*time.Hour - time.Second},
		{24 * time.Hour, seconds(10 * time.Minute), 10 * time.Minute},
		{24 * time.Hour, seconds(time.Minute), 10 * time.Minute},
		{24 * time.Hour, seconds(-time.Minute), 10 * time.Minute},
		{24 * time.Hour, seconds(25 * time.Hour), 24*time.Hour - backdate},
		{time.Hour, seconds(25 * time.Hour), time.Hour},
	} {
		before, after := validity(now, tt.most, tt.seconds)
		if now.Sub(before) != backdate || after.Sub(now) != tt.want {
			t.Errorf("%s, %v: %s before, %s after", tt.most, tt.seconds, now.Sub(before), after.Sub(now))
		}
	}
}

// book is an authority that counts.
type book struct {
	mu    sync.Mutex
	asked []pki.Request
	err   error
}

func (b *book) SignRequest(r pki.Request) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, r)
	return fmt.Appendf(nil, "certificate %d", len(b.asked)), b.err
}

func (b *book) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

var requestPEM = sync.OnceValue(func() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
})

func request(name, signer string, conditions ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: requestPEM(), SignerName: signer, Usages: usages{asClient}}}
	for _, c := range conditions {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: c, Status: corev1.ConditionTrue})
	}
	return r
}

// run starts a controller on a fake API, until the test ends.
func run(t *testing.T, b *book, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	api := fake.NewClientset(objects...)
	requests := api.CertificatesV1().CertificateSigningRequests()
	c, err := New(Config{
		Client: api.CertificatesV1(), Authority: b, Duration: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Requests: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return requests.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return requests.Watch(ctx, o)
			},
		}, api),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return api
}

func get(t *testing.T, api *fake.Clientset, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	r, err := api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Approved requests of the four signers are signed, once, and no others.
func TestWhatIsSigned(t *testing.T) {
	requestPEM()
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		done := request("done", client, certificatesv1.CertificateApproved)
		done.Status.Certificate = []byte("there")
		wrong := request("wrong", client, certificatesv1.CertificateApproved)
		wrong.Spec.Usages = usages{asServer}
		api := run(t, b, done, wrong, request("open", client), request("approved", client, certificatesv1.CertificateApproved),
			request("denied", client, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied), request("failed", client, certificatesv1.CertificateApproved, certificatesv1.CertificateFailed),
			request("others", "example.com/signer", certificatesv1.CertificateApproved), request("old", legacy, certificatesv1.CertificateApproved))
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, want := range map[string]bool{"open": false, "approved": true, "denied": false, "failed": false, "others": false, "old": true, "wrong": false} {
			if r := get(t, api, name); len(r.Status.Certificate) > 0 != want {
				t.Errorf("%s: %q", name, r.Status.Certificate)
			}
		}
		if got := get(t, api, "done").Status.Certificate; string(got) != "there" {
			t.Errorf("signed again: %q", got)
		}
		last := func(name string) certificatesv1.CertificateSigningRequestCondition {
			c := get(t, api, name).Status.Conditions
			return c[len(c)-1]
		}
		if c := last("wrong"); c.Type != certificatesv1.CertificateFailed || c.Reason != "SignerValidationFailure" || c.Message != "invalid usage for client certificate: server auth" || c.Status != corev1.ConditionTrue || c.LastUpdateTime.IsZero() {
			t.Errorf("wrong: %+v", c)
		}
		open := get(t, api, "open")
		open.Status.Conditions = request("", "", certificatesv1.CertificateApproved).Status.Conditions
		if _, err := api.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), "open", open, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(get(t, api, "open").Status.Certificate) == 0 {
			t.Error("approved later and not signed")
		}
		time.Sleep(time.Hour)
		if n := b.count(); n != 3 {
			t.Errorf("%d certificates for three requests", n)
		}
	})
}

// Writes that fail are tried again, slower and slower, and those that meet another
// write take the certificate that is signed already.
func TestWritesThatFail(t *testing.T) {
	requestPEM()
	for _, tt := range []struct {
		name          string
		fail          func(try int) error
		signed, tries int
		done          bool
	}{
		{"conflicts", func(try int) error {
			if try < 4 {
				return apierrors.NewConflict(certificatesv1.Resource("certificatesigningrequests"), "r", errors.New("changed"))
			}
			return nil
		}, 1, 4, true},
		{"refused twice", func(try int) error {
			if try < 3 {
				return errors.New("refused")
			}
			return nil
		}, 3, 3, true},
		{"gone", func(int) error {
			return apierrors.NewNotFound(certificatesv1.Resource("certificatesigningrequests"), "r")
		}, 1, 1, false},
		// 0.2 s, doubled each time: 14 tries are in the first 28 minutes, the others 1000 s apart.
		{"refused for good", func(int) error { return errors.New("refused") }, 15, 15, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, writes := &book{}, 0
				api := run(t, b)
				api.PrependReactor("update", "certificatesigningrequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if a.GetSubresource() != "status" {
						return false, nil, nil
					}
					writes++
					err := tt.fail(writes)
					return err != nil, nil, err
				})
				if _, err := api.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request("r", client, certificatesv1.CertificateApproved), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if b.count() != tt.signed || writes != tt.tries {
					t.Errorf("%d certificates, %d writes; want %d, %d", b.count(), writes, tt.signed, tt.tries)
				}
				if (len(get(t, api, "r").Status.Certificate) > 0) != tt.done {
					t.Errorf("signed is not %v", tt.done)
				}
			})
		})
	}
}

// Who is denied, or replaced by another of the same name, between signing and writing
// gets no certificate.
func TestChangedWhileSigning(t *testing.T) {
	requestPEM()
	for name, change := range map[string]func(*certificatesv1.CertificateSigningRequest){
		"denied": func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = request("", "", certificatesv1.CertificateApproved, certificatesv1.CertificateDenied).Status.Conditions
		},
		"replaced": func(r *certificatesv1.CertificateSigningRequest) { r.UID = "2" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &book{}
				api := run(t, b)
				changed := request("r", client, certificatesv1.CertificateApproved)
				change(changed)
				api.PrependReactor("update", "certificatesigningrequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewConflict(certificatesv1.Resource("certificatesigningrequests"), "r", errors.New("changed"))
				})
				api.PrependReactor("get", "certificatesigningrequests", func(clienttesting.Action) (bool, runtime.Object, error) { return true, changed, nil })
				if _, err := api.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request("r", client, certificatesv1.CertificateApproved), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				updates := 0
				for _, a := range api.Actions() {
					if a.GetVerb() == "update" {
						updates++
					}
				}
				if updates != 1 || b.count() != 1 {
					t.Errorf("%d writes, %d certificates", updates, b.count())
				}
			})
		})
	}
}

// What the authority refuses fails for good; what it cannot do now is tried again.
func TestAuthorityRefuses(t *testing.T) {
	requestPEM()
	synctest.Test(t, func(t *testing.T) {
		b := &book{err: errors.New("the book is full")}
		api := run(t, b, request("r", client, certificatesv1.CertificateApproved))
		time.Sleep(time.Second)
		if r := get(t, api, "r"); len(r.Status.Certificate) > 0 || failed(r) || b.count() < 2 {
			t.Errorf("%+v after %d tries", r.Status, b.count())
		}
		b.mu.Lock()
		b.err = pki.Refuse(errors.New("not you"))
		b.mu.Unlock()
		time.Sleep(time.Hour)
		r := get(t, api, "r")
		if !failed(r) || r.Status.Conditions[1].Message != "not you" || len(r.Status.Certificate) > 0 {
			t.Errorf("%+v", r.Status)
		}
	})
}
