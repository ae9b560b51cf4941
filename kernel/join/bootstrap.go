package join

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	"pintle.dev/pintle/kernel/secretfile"
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

// keyFile of pki/ has the key of a request until the machine has joined. So one that ended
// meanwhile finds its request again. The kubelet has that name too.
const keyFile = "kubelet-client.key.tmp"

// requestKey is the key of the request under way, or a new one, which is kept.
func requestKey(o *Options) (key *ecdsa.PrivateKey, keyPEM []byte, err error) {
	path := filepath.Join(o.pki(), keyFile)
	keyPEM, err = secretfile.Read(path)
	if err == nil {
		// A file that was not written whole has no key.
		if have, err := keyutil.ParsePrivateKeyPEM(keyPEM); err == nil {
			if key, ok := have.(*ecdsa.PrivateKey); ok && key.Curve == elliptic.P256() {
				return key, keyPEM, nil
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, err
	}
	return key, keyPEM, secretfile.Write(path, keyPEM, 0o600)
}

// forgetKey has the next request be another one.
func forgetKey(o *Options) error {
	if err := os.Remove(filepath.Join(o.pki(), keyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("key of the request of node %s: %w", o.Node, err)
	}
	return nil
}

// requestName is one name for one key, so that a machine asks once.
func requestName(key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("node-csr-%x", sha256.Sum256(der)), nil
}

// askAnew is the age from which on a request that waits is given up for a new one:
// csrapproving approves those of an hour at most.
const askAnew = 30 * time.Minute

// hopeless says whether a former request gets no certificate: it is refused, or waits for too
// long.
func hopeless(r *certificatesv1.CertificateSigningRequest) bool {
	approved := false
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return true
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	return !approved && time.Since(r.CreationTimestamp.Time) > askAnew
}

// request asks for the first client certificate of a node and waits for it until ctx ends. One
// that asked before and ended meanwhile waits for the same. The key is kept until forgetKey; a
// request that is refused has no key any more.
func request(ctx context.Context, client kubernetes.Interface, c Cluster, a Argument, o *Options) (certPEM, keyPEM []byte, err error) {
	node := o.Node
	if err := vacant(ctx, client, c, a, node); err != nil {
		return nil, nil, err
	}
	if err := secretfile.MakeDirectory(o.pki()); err != nil {
		return nil, nil, err
	}
	key, keyPEM, err := requestKey(o)
	if err != nil {
		return nil, nil, fmt.Errorf("key of node %s: %w", node, err)
	}
	name, err := requestName(key)
	if err != nil {
		return nil, nil, fmt.Errorf("key of node %s: %w", node, err)
	}
	if former, err := client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{}); err == nil && hopeless(former) {
		if err := forgetKey(o); err != nil {
			return nil, nil, err
		}
		if key, keyPEM, err = requestKey(o); err != nil {
			return nil, nil, fmt.Errorf("key of node %s: %w", node, err)
		}
		if name, err = requestName(key); err != nil {
			return nil, nil, fmt.Errorf("key of node %s: %w", node, err)
		}
	}
	about := subject(node)
	asked, err := certutil.MakeCSR(key, &about, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate request of node %s: %w", node, err)
	}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, asked, name, certificatesv1.KubeAPIServerClientKubeletSignerName, nil, certificate.DefaultKubeletClientGetUsages(key), key)
	switch {
	case apierrors.IsUnauthorized(err):
		return nil, nil, unauthorized(c, a, err)
	case err != nil:
		return nil, nil, fmt.Errorf("API server %s: ask for the certificate of node %s: %w", c.Server, node, err)
	}
	o.Progress("request %s of %s waits for its certificate", name, User(node))
	certPEM, err = csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		if ctx.Err() == nil { // decided, and not for it
			err = errors.Join(err, forgetKey(o))
		}
		return nil, nil, fmt.Errorf("API server %s: certificate signing request %s of node %s: %w; pintle kubectl get csr %s shows it; the controller csrapproving approves it unless Node %s exists, and an administrator may",
			c.Server, name, node, err, name, node)
	}
	if err := checkCertificate(certPEM, c, node, key); err != nil {
		return nil, nil, errors.Join(err, forgetKey(o))
	}
	return certPEM, keyPEM, nil
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
