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
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// TestTwoMachinesOneName: of two that ask for the certificate of one new node, one is
// approved; the other is denied and reads why. Those that get nothing, that are over, or
// that are of the same machine stand in no one's way.
func TestTwoMachinesOneName(t *testing.T) {
	type spec = *certificatesv1.CertificateSigningRequest
	by := func(name, user string, edit func(spec)) spec {
		return node(t, nil, func(r spec) {
			r.Name, r.UID, r.Spec.Username = name, types.UID(name), user
			if edit != nil {
				edit(r)
			}
		})
	}
	with := func(kinds ...certificatesv1.RequestConditionType) func(spec) {
		return func(r spec) {
			for _, kind := range kinds {
				r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind})
			}
		}
	}
	const a, b = "system:bootstrap:aaaaaa", "system:bootstrap:bbbbbb"
	const approved, denied = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied
	second := by("second", b, nil)
	for name, tc := range map[string]struct {
		first spec
		want  certificatesv1.RequestConditionType
	}{
		"approved":                 {by("first", a, with(approved)), denied},
		"of the same token":        {by("first", b, with(approved)), denied},
		"not decided":              {by("first", a, nil), approved},
		"denied":                   {by("first", a, with(denied)), approved},
		"approved and failed":      {by("first", a, with(approved, certificatesv1.CertificateFailed)), approved},
		"the node's own":           {by("first", "system:node:n", with(approved)), approved},
		"of another signer":        {by("first", a, func(r spec) { with(approved)(r); r.Spec.SignerName = certificatesv1.KubeletServingSignerName }), approved},
		"of the same machine":      {by("first", a, func(r spec) { with(approved)(r); r.Spec.Request = second.Spec.Request }), approved},
		"that is no request":       {by("first", a, func(r spec) { with(approved)(r); r.Spec.Request = []byte("x") }), approved},
		"approved, another node's": {node(t, func(x *x509.CertificateRequest) { x.Subject.CommonName = "system:node:m" }, func(r spec) { r.Name, r.UID, r.Spec.Username = "first", "first", a; with(approved)(r) }), approved},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(tc.first, second)
			allowAll(client)
			c := approverOf(t, client, second)
			if err := c.informer.GetIndexer().Add(tc.first); err != nil {
				t.Fatal(err)
			}
			if err := c.sync(t.Context(), "second"); err != nil {
				t.Fatal(err)
			}
			got := conditionsOf(t, client, "second")
			if len(got) != 1 || got[0].Type != tc.want {
				t.Fatalf("%+v, want %s", got, tc.want)
			}
			if tc.want == denied && (got[0].Reason != "NodeRequested" || !strings.Contains(got[0].Message, "node n before, by request first of "+tc.first.Spec.Username) || !strings.Contains(got[0].Message, "delete csr first")) {
				t.Errorf("it is denied with %+v", got[0])
			}
		})
	}
}

// TestAtOnce: of many that ask in one moment one gets the name, though the cache shows no
// approval; when its request is gone, the name is free.
func TestAtOnce(t *testing.T) {
	const many = 20
	client := fake.NewClientset()
	allowAll(client)
	var requests []*certificatesv1.CertificateSigningRequest
	for i := range many {
		r := node(t, nil, func(r *certificatesv1.CertificateSigningRequest) {
			r.Name, r.Spec.Username = fmt.Sprint("r", i), "system:bootstrap:aaaaaa"
			r.UID = types.UID(r.Name)
		})
		requests = append(requests, r)
		if err := client.Tracker().Add(r); err != nil {
			t.Fatal(err)
		}
	}
	a := approverOf(t, client, requests[0])
	for _, r := range requests[1:] {
		if err := a.informer.GetIndexer().Add(r); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for _, r := range requests {
		all.Go(func() {
			if err := a.sync(t.Context(), r.Name); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	winner := ""
	for _, r := range requests {
		got := conditionsOf(t, client, r.Name)
		switch {
		case len(got) != 1:
			t.Errorf("%s is not decided: %+v", r.Name, got)
		case got[0].Type == certificatesv1.CertificateApproved && winner != "":
			t.Errorf("%s and %s are one node", winner, r.Name)
		case got[0].Type == certificatesv1.CertificateApproved:
			winner = r.Name
		}
	}
	if winner == "" {
		t.Fatal("no machine got the name")
	}
	for _, r := range requests {
		if err := a.informer.GetIndexer().Delete(r); err != nil {
			t.Fatal(err)
		}
		if err := a.sync(t.Context(), r.Name); err != nil {
			t.Error(err)
		}
	}
	if len(a.names.chosen) != 0 {
		t.Errorf("%d names are kept", len(a.names.chosen))
	}
	later := node(t, nil, func(r *certificatesv1.CertificateSigningRequest) {
		r.Name, r.UID, r.Spec.Username = "later", "later", "system:bootstrap:aaaaaa"
	})
	if err := errors.Join(client.Tracker().Add(later), a.informer.GetIndexer().Add(later), a.sync(t.Context(), "later")); err != nil {
		t.Fatal(err)
	}
	if got := conditionsOf(t, client, "later"); len(got) != 1 || got[0].Type != certificatesv1.CertificateApproved {
		t.Errorf("with the name free: %+v", got)
	}
}

// allowAll grants what reviews ask for.
func allowAll(client *fake.Clientset) {
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
}

func conditionsOf(t *testing.T, client *fake.Clientset, name string) []certificatesv1.CertificateSigningRequestCondition {
	t.Helper()
	r, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Conditions
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
