package join

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
)

// nodesGroup is the group of all nodes, User the user that a node is.
const nodesGroup = "system:nodes"

// User is the user name of a node.
func User(node string) string { return "system:node:" + node }

// subject is what a node's certificates are about.
func subject(node string) pkix.Name {
	return pkix.Name{CommonName: User(node), Organization: []string{nodesGroup}}
}

// asToken is a client with the token's identity, of a server that is known.
func asToken(c Cluster, a Argument) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: c.Server, TLSClientConfig: rest.TLSClientConfig{CAData: c.CA}, BearerToken: a.ID + "." + a.Secret, UserAgent: userAgent, Timeout: 0,
	})
	if err != nil {
		return nil, fmt.Errorf("client of API server %s: %w", c.Server, err)
	}
	return client, nil
}

// request asks for the first client certificate of a node and waits for it until ctx ends.
// progress is told of the request.
func request(ctx context.Context, client kubernetes.Interface, c Cluster, a Argument, node string, progress func(format string, args ...any)) (certPEM, keyPEM []byte, err error) {
	if err := vacant(ctx, client, c, a, node); err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("key of node %s: %w", node, err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, fmt.Errorf("key of node %s: %w", node, err)
	}
	about := subject(node)
	asked, err := certutil.MakeCSR(key, &about, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate request of node %s: %w", node, err)
	}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, asked, "", certificatesv1.KubeAPIServerClientKubeletSignerName, nil, certificate.DefaultKubeletClientGetUsages(key), key)
	switch {
	case apierrors.IsUnauthorized(err):
		return nil, nil, unauthorized(c, a, err)
	case err != nil:
		return nil, nil, fmt.Errorf("API server %s: ask for the certificate of node %s: %w", c.Server, node, err)
	}
	progress("request %s of %s waits for its certificate", name, User(node))
	certPEM, err = csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return nil, nil, fmt.Errorf("API server %s: certificate signing request %s of node %s: %w; pintle kubectl get csr %s shows it; the controller csrapproving approves it unless Node %s exists, and an administrator may",
			c.Server, name, node, err, name, node)
	}
	return certPEM, keyPEM, checkCertificate(certPEM, c, node, key)
}

// vacant is an error where another machine has the name. A token that may not read nodes
// does not find out; csrapproving looks too.
func vacant(ctx context.Context, client kubernetes.Interface, c Cluster, a Argument, node string) error {
	_, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case err == nil:
		return fmt.Errorf("node %s is there already, of another machine or of this one before its data directory was lost; choose another node.name, or delete it: pintle kubectl delete node %s", node, node)
	case apierrors.IsUnauthorized(err):
		return unauthorized(c, a, err)
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil
	}
	return fmt.Errorf("API server %s: look whether node %s is there: %w", c.Server, node, err)
}

func unauthorized(c Cluster, a Argument, err error) error {
	return fmt.Errorf("API server %s does not take token %s: %w; it has expired or is none for authentication, or the kernel lets no tokens in (auth.bootstrapTokens)", c.Server, a.ID, err)
}

// checkCertificate compares what was issued with what was asked for.
func checkCertificate(certPEM []byte, c Cluster, node string, key *ecdsa.PrivateKey) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("API server %s issued another certificate than node %s asked for: %w", c.Server, node, fmt.Errorf(format, args...))
	}
	certs, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return wrong("%w", err)
	}
	leaf, pool := certs[0], x509.NewCertPool()
	pool.AppendCertsFromPEM(c.CA)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return wrong("%w", err)
	}
	if leaf.Subject.CommonName != User(node) || !slices.Equal(leaf.Subject.Organization, []string{nodesGroup}) {
		return wrong("it is of %s", leaf.Subject)
	}
	own, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return wrong("%w", err)
	}
	if !bytes.Equal(own, leaf.RawSubjectPublicKeyInfo) {
		return wrong("it is of another key")
	}
	return nil
}
