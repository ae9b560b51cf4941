package api_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
)

// signingRequest is one for a certificate of the subject, and a certificate that
// could be the answer.
func signingRequest(t *testing.T, subject pkix.Name) (request, certificate []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotAfter: time.Now().Add(time.Hour)},
		&x509.Certificate{Subject: subject}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued})
}

func requestFor(name, signer string, request []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: request, SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}}
}

// A request says who asked, whatever its maker writes there; it is approved and
// signed by those who have the right for its signer, each once.
func TestCertificateSigningRequests(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s).CertificatesV1().CertificateSigningRequests()
	as := func(name string, groups ...string) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}))
	}
	// Each may do all with requests themselves; the signers are told apart.
	rights := func(name string, signers ...rbacv1.PolicyRule) {
		rules := append([]rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"certificates.k8s.io"},
			Resources: []string{"certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"}}}, signers...)
		admins := overTLS(t, s).RbacV1()
		if _, err := admins.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admins.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	signers := func(verb string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: names}
	}
	rights("mallory")
	rights("approver", signers("approve", "example.com/one"))
	rights("signer", signers("sign", "example.com/*"))
	waitFor(t, func() bool {
		_, err := as("signer").CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		return err == nil
	})

	asked, certificate := signingRequest(t, pkix.Name{CommonName: "m"})
	mallory := as("mallory", "devs").CertificatesV1().CertificateSigningRequests()
	given := requestFor("one", "example.com/one", asked)
	given.Spec.Username, given.Spec.Groups, given.Spec.UID = "admin", []string{user.SystemPrivilegedGroup}, "1"
	given.Status = certificatesv1.CertificateSigningRequestStatus{Certificate: certificate,
		Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}}
	made, err := mallory.Create(ctx, given, metav1.CreateOptions{})
	if err != nil || made.Spec.Username != "mallory" || made.Spec.UID != "" || slices.Contains(made.Spec.Groups, user.SystemPrivilegedGroup) ||
		!slices.Contains(made.Spec.Groups, "devs") || len(made.Status.Conditions) != 0 || len(made.Status.Certificate) != 0 {
		t.Fatalf("created: %+v, %v", made, err)
	}
	if _, err := mallory.Create(ctx, requestFor("two", "other.example.com/two", asked), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	changed := made.DeepCopy()
	changed.Spec.Username, changed.Spec.SignerName = "admin", "example.com/other"
	if changed, err = mallory.Update(ctx, changed, metav1.UpdateOptions{}); err != nil || changed.Spec.Username != "mallory" || changed.Spec.SignerName != "example.com/one" {
		t.Errorf("changed: %+v, %v", changed, err)
	}

	approve := func(who, name, signerSays string) (*certificatesv1.CertificateSigningRequest, error) {
		o, err := c.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if signerSays != "" {
			o.Spec.SignerName = signerSays
		}
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "r"})
		o.Status.Certificate = certificate // which approving does not give
		return as(who).CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, name, o, metav1.UpdateOptions{})
	}
	sign := func(who, name string) (*certificatesv1.CertificateSigningRequest, error) {
		o, err := c.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o.Status.Certificate = certificate
		return as(who).CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, o, metav1.UpdateOptions{})
	}
	refused := func(what string, err error, words string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = approve("mallory", "one", "")
	refused("approved without the right", err, `user not permitted to approve requests with signerName "example.com/one"`)
	_, err = approve("signer", "one", "")
	refused("approved with the right to sign", err, "user not permitted to approve")
	_, err = approve("approver", "two", "example.com/one")
	refused("approved for another signer, which the body names", err, `signerName "other.example.com/two"`)
	_, err = sign("mallory", "one")
	refused("signed without the right", err, `user not permitted to sign requests with signerName "example.com/one"`)
	_, err = sign("signer", "two")
	refused("signed for another domain", err, `signerName "other.example.com/two"`)

	approved, err := approve("approver", "one", "")
	if err != nil || len(approved.Status.Certificate) != 0 || len(approved.Status.Conditions) != 1 || approved.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Fatalf("approved: %+v, %v", approved, err)
	}
	signed, err := sign("signer", "one")
	if err != nil || !bytes.Equal(signed.Status.Certificate, certificate) || len(signed.Status.Conditions) != 1 {
		t.Fatalf("signed: %+v, %v", signed, err)
	}
	_, other := signingRequest(t, pkix.Name{CommonName: "other"})
	signed.Status.Certificate = other
	if _, err := c.UpdateStatus(ctx, signed, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "updates may not modify existing certificate content") {
		t.Errorf("signed twice: %v", err)
	}

	list, err := c.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=example.com/one"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "one" {
		t.Errorf("selected: %v, %v", list, err)
	}
	body, err := overTLS(t, s).CertificatesV1().RESTClient().Get().Resource("certificatesigningrequests").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil || !strings.Contains(string(body), `"example.com/one","mallory","\u003cnone\u003e","Approved,Issued"`) {
		t.Errorf("table: %s, %v", body, err)
	}

	masters, _ := signingRequest(t, pkix.Name{CommonName: "m", Organization: []string{"devs", user.SystemPrivilegedGroup}})
	_, err = c.Create(ctx, requestFor("masters", certificatesv1.KubeAPIServerClientSignerName, masters), metav1.CreateOptions{})
	refused("a certificate of masters", err, "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")
	if _, err := c.Create(ctx, requestFor("masters", "example.com/one", masters), metav1.CreateOptions{}); err != nil {
		t.Errorf("another signer, which the server does not trust: %v", err)
	}

	// A node asks for itself alone.
	node := as("system:node:n1", user.NodesGroup).CertificatesV1().CertificateSigningRequests()
	own, _ := signingRequest(t, pkix.Name{CommonName: "system:node:n1", Organization: []string{user.NodesGroup}})
	foreign, _ := signingRequest(t, pkix.Name{CommonName: "system:node:n2", Organization: []string{user.NodesGroup}})
	for _, signer := range []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName} {
		name := "of-node-" + strings.TrimPrefix(signer, "kubernetes.io/")
		_, err = node.Create(ctx, requestFor(name, signer, foreign), metav1.CreateOptions{})
		refused("a node asks for another's", err, "can only create a node CSR with CN=system:node:n1")
		_, err = node.Create(ctx, requestFor(name, signer, []byte("rubbish")), metav1.CreateOptions{})
		refused("a node asks for rubbish", err, "unable to parse csr")
		if _, err := node.Create(ctx, requestFor(name, signer, own), metav1.CreateOptions{}); err != nil {
			t.Errorf("a node asks for its own: %v", err)
		}
	}
	_, err = approve("system:node:n1", "two", "")
	refused("a node approves", err, "cannot update resource")
	// The roles of approvers are there.
	role, err := overTLS(t, s).RbacV1().ClusterRoles().Get(ctx, "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver", metav1.GetOptions{})
	if err != nil || len(role.Rules) != 1 || !slices.Equal(role.Rules[0].ResourceNames, []string{certificatesv1.KubeAPIServerClientKubeletSignerName}) {
		t.Errorf("role: %+v, %v", role, err)
	}
}
