package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requestsAreApproved: a node's request for its own certificate is approved once its
// group has the right, that of another user is not, and kubectl decides about it.
func requestsAreApproved(t *testing.T, e *env) {
	const node = "system:node:requesting"
	create := func(name, by, of string) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: of, Organization: []string{"system:nodes"}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		cfg := rest.CopyConfig(e.cfg)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: by, Groups: []string{"system:authenticated", "requesters"}}
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "requesters"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests", "certificatesigningrequests/selfnodeclient"}, Verbs: []string{"create"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "requesters"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "requesters"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "requesters"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	has := func(name string, kind certificatesv1.RequestConditionType, reason string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			r, err := e.client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
				return c.Type == kind && c.Reason == reason
			}) {
				return fmt.Errorf("request %s has the conditions %+v, not %s by %s", name, r.Status.Conditions, kind, reason)
			}
			return nil
		})
	}
	create("others", "system:bootstrap:abcdef", node)
	create("own", node, node)
	has("own", certificatesv1.CertificateApproved, "AutoApproved")
	e.kubectl(t, "certificate", "deny", "others")
	has("others", certificatesv1.CertificateDenied, "KubectlDeny")
	r, err := e.client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "others", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Status.Conditions) != 1 {
		t.Errorf("another user's request has the conditions %+v", r.Status.Conditions)
	}
}
