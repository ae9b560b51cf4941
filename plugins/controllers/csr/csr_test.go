package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/sdk/controller"
)

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// node is a request for node n's certificate, by itself; edit changes it.
func node(t *testing.T, x func(*x509.CertificateRequest), edit func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
	if x != nil {
		x(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "1", CreationTimestamp: metav1.Now()},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
			Username: "system:node:n", UID: "u", Groups: []string{"g"}, Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}},
		},
	}
	if edit != nil {
		edit(r)
	}
	return r
}

// TestApprover: who may have which request approved, and what is nobody's to approve.
func TestApprover(t *testing.T) {
	type spec = *certificatesv1.CertificateSigningRequest
	for name, tc := range map[string]struct {
		x       func(*x509.CertificateRequest)
		edit    func(spec)
		allowed []string // subresources
		asked   string
		want    string // part of the message, empty for not approved
	}{
		"its own":            {allowed: []string{"selfnodeclient"}, asked: "selfnodeclient", want: "self kubelet client"},
		"its own, as any":    {allowed: []string{"nodeclient"}, asked: "selfnodeclient nodeclient", want: "Auto approving kubelet client"},
		"without a right":    {asked: "selfnodeclient nodeclient"},
		"of another node":    {edit: func(r spec) { r.Spec.Username = "system:node:m" }, allowed: []string{"selfnodeclient"}, asked: "nodeclient"},
		"by a bootstrapper":  {edit: func(r spec) { r.Spec.Username = "system:bootstrap:x" }, allowed: []string{"nodeclient"}, asked: "nodeclient", want: "Auto approving kubelet client"},
		"of an elliptic key": {edit: func(r spec) { r.Spec.Usages = slices.Delete(r.Spec.Usages, 1, 2) }, allowed: []string{"selfnodeclient"}, asked: "selfnodeclient", want: "self"},
		"for a server too":   {edit: func(r spec) { r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth) }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"for no client":      {edit: func(r spec) { r.Spec.Usages = r.Spec.Usages[:2] }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"of another signer":  {edit: func(r spec) { r.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"of administrators":  {x: func(x *x509.CertificateRequest) { x.Subject.Organization = []string{"system:masters"} }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"of two groups":      {x: func(x *x509.CertificateRequest) { x.Subject.Organization = []string{"system:nodes", "system:masters"} }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"of a user":          {x: func(x *x509.CertificateRequest) { x.Subject.CommonName = "system:nodes" }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"with a DNS name":    {x: func(x *x509.CertificateRequest) { x.DNSNames = []string{"kubernetes"} }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"with an address":    {x: func(x *x509.CertificateRequest) { x.IPAddresses = []net.IP{{10, 0, 0, 1}} }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"with an e-mail":     {x: func(x *x509.CertificateRequest) { x.EmailAddresses = []string{"a@b"} }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"with a URI":         {x: func(x *x509.CertificateRequest) { x.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"that is no request": {edit: func(r spec) { r.Spec.Request = []byte("hello") }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"that is a key":      {edit: func(r spec) { r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}) }, allowed: []string{"selfnodeclient", "nodeclient"}},
		"denied before": {edit: func(r spec) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, allowed: []string{"selfnodeclient"}},
		"issued before": {edit: func(r spec) { r.Status.Certificate = []byte("x") }, allowed: []string{"selfnodeclient"}},
		"approved by another": {edit: func(r spec) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
		}, allowed: []string{"selfnodeclient"}},
	} {
		t.Run(name, func(t *testing.T) {
			request := node(t, tc.x, tc.edit)
			client := fake.NewClientset(request)
			var asked []string
			client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
				s := review.Spec
				if s.User != request.Spec.Username || s.UID != "u" || !slices.Equal(s.Groups, []string{"g"}) || len(s.Extra["k"]) != 1 ||
					s.ResourceAttributes.Verb != "create" || s.ResourceAttributes.Group != "certificates.k8s.io" || s.ResourceAttributes.Resource != "certificatesigningrequests" {
					t.Errorf("asked about %+v", s)
				}
				asked = append(asked, s.ResourceAttributes.Subresource)
				review.Status.Allowed = slices.Contains(tc.allowed, s.ResourceAttributes.Subresource)
				return true, review, nil
			})
			a := approverOf(t, client, request)
			_ = a.sync(t.Context(), "r")
			if got := strings.Join(asked, " "); got != tc.asked {
				t.Errorf("asked for %q, want %q", got, tc.asked)
			}
			now, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "r", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			added := now.Status.Conditions[len(request.Status.Conditions):]
			switch {
			case tc.want == "" && len(added) > 0:
				t.Errorf("approved: %+v", added)
			case tc.want != "" && (len(added) != 1 || added[0].Type != certificatesv1.CertificateApproved || added[0].Reason != "AutoApproved" || !strings.Contains(added[0].Message, tc.want)):
				t.Errorf("conditions are %+v, want %q", added, tc.want)
			}
		})
	}
}

func approverOf(t *testing.T, client *fake.Clientset, request *certificatesv1.CertificateSigningRequest) *approver {
	t.Helper()
	shared := informers.NewSharedInformerFactory(client, 0)
	r, err := NewApprover(&controller.Context{Client: client, Informers: shared, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a := r.(*approver)
	if err := a.informer.GetIndexer().Add(request); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestReviewFails: without an answer nothing is approved.
func TestReviewFails(t *testing.T) {
	request := node(t, nil, nil)
	client := fake.NewClientset(request)
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not now")
	})
	if err := approverOf(t, client, request).sync(t.Context(), "r"); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("got %v", err)
	}
}

// TestOver: what is kept, and for how long.
func TestOver(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	k := key(t)
	certificate := func(until time.Time) []byte {
		x := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-48 * time.Hour), NotAfter: until}
		der, err := x509.CreateCertificate(rand.Reader, x, x, &k.PublicKey, k)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	good, bad := certificate(now.Add(time.Hour)), certificate(now.Add(-time.Minute))
	const approved, denied, failed = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed
	for name, tc := range map[string]struct {
		made, updated time.Duration
		condition     certificatesv1.RequestConditionType
		certificate   []byte
		want          bool
	}{
		"undecided":                        {made: 24 * time.Hour},
		"undecided for long":               {made: 24*time.Hour + 1, want: true},
		"denied":                           {made: 48 * time.Hour, updated: time.Hour, condition: denied},
		"denied for long":                  {updated: time.Hour + 1, condition: denied, want: true},
		"failed":                           {made: 48 * time.Hour, updated: time.Hour, condition: failed},
		"failed for long":                  {updated: time.Hour + 1, condition: failed, want: true},
		"approved":                         {made: 48 * time.Hour, updated: 24 * time.Hour, condition: approved},
		"approved for long":                {updated: 24*time.Hour + 1, condition: approved, want: true},
		"issued":                           {made: 48 * time.Hour, updated: time.Hour, condition: approved, certificate: good},
		"issued for long":                  {updated: time.Hour + 1, condition: approved, certificate: good, want: true},
		"expired":                          {updated: time.Minute, condition: approved, certificate: bad, want: true},
		"issued, with a certificate of no": {updated: time.Minute, condition: approved, certificate: []byte("x")},
		"issued without an approval":       {made: time.Hour, updated: time.Minute, condition: "Other", certificate: bad},
	} {
		t.Run(name, func(t *testing.T) {
			r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(tc.made)}}
			r.Status.Certificate = tc.certificate
			if tc.condition != "" {
				r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: tc.condition, LastUpdateTime: ago(tc.updated)}}
			}
			if why := over(r, now); (why != "") != tc.want {
				t.Errorf("over: %q, want %v", why, tc.want)
			}
		})
	}
}

// TestCleaner: each hour what is over goes, and nothing else.
func TestCleaner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := func(name string) *certificatesv1.CertificateSigningRequest {
			return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now()}}
		}
		client := fake.NewClientset(request("old"))
		requests := client.CertificatesV1().CertificateSigningRequests()
		r, err := NewCleaner(&controller.Context{Client: client, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(20 * time.Hour)
		if _, err := requests.Create(ctx, request("young"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if _, err := requests.Get(ctx, "old", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the old one: %v", err)
		}
		if _, err := requests.Get(ctx, "young", metav1.GetOptions{}); err != nil {
			t.Errorf("the young one: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
