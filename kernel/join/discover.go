package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
)

const (
	// lookEach is how often a server is asked that does not answer, or whose answer the
	// token has not signed yet: kubeadm's.
	lookEach = 5 * time.Second
	// askTimeout is how long one question may take.
	askTimeout = 10 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 1 << 20
)

// Cluster is where the API server is, and by what it is known.
type Cluster struct {
	// Server is a URL.
	Server string
	// CA is the cluster's authority, PEM.
	CA []byte
}

// refusedError is an answer that no further question changes.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

func refuse(format string, args ...any) error { return refusedError{fmt.Errorf(format, args...)} }

// Discover asks the API server for the cluster's authority until ctx ends, and believes it
// if the token signed it and its key has the argument's hash. The server has to have a
// certificate of that authority, and to say the same again behind that.
func Discover(ctx context.Context, a Argument) (Cluster, error) {
	var last error // what a server said, before time was over
	for {
		c, err := discover(ctx, a)
		if err == nil || errors.As(err, new(refusedError)) {
			return c, err
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(lookEach):
		case <-ctx.Done():
			return Cluster{}, last
		}
	}
}

func discover(ctx context.Context, a Argument) (Cluster, error) {
	first, err := clusterInfo(ctx, a, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}) //nolint:gosec // what is said is signed by the token, and asked for again with TLS
	if err != nil {
		return Cluster{}, err
	}
	content, err := signed(first, a)
	if err != nil {
		return Cluster{}, err
	}
	ca, err := authority(content, a)
	if err != nil {
		return Cluster{}, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	again, err := clusterInfo(ctx, a, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool})
	if unknown := (*tls.CertificateVerificationError)(nil); errors.As(err, &unknown) {
		return Cluster{}, refuse("API server %s: its certificate is not of the authority with the hash of --join: %w; is there another server between, or is the address one that the certificate does not name?", a.Server, unknown.Err)
	}
	if err != nil {
		return Cluster{}, err
	}
	if again.Data[bootstrapapi.KubeConfigKey] != content {
		return Cluster{}, refuse("API server %s: ConfigMap %s/%s is another one when it is asked for by TLS; somebody is between, or it changed this moment: try again", a.Server, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo)
	}
	return Cluster{Server: a.url(), CA: pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: ca.Raw})}, nil
}

// clusterInfo reads the ConfigMap without a credential.
func clusterInfo(ctx context.Context, a Argument, trust *tls.Config) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: trust, DialContext: (&net.Dialer{}).DialContext, Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10}
	defer transport.CloseIdleConnections()
	path := fmt.Sprintf("/api/v1/namespaces/%s/configmaps/%s", metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url()+path, nil)
	if err != nil {
		return nil, refuse("API server %s: %w", a.Server, err)
	}
	req.Header.Set("Accept", "application/json")
	// What is pinned is this server, not one that it names.
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("API server %s was not reached: %w; does it run, and is the address right?", a.Server, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("API server %s: read ConfigMap %s/%s: %s; it is made by pintle token create, and has to be readable without a credential",
			a.Server, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", a.Server, err)
	}
	if len(body) > maxAnswer {
		return nil, refuse("API server %s: its answer is longer than %d bytes, so it is not an API server of this cluster", a.Server, maxAnswer)
	}
	info := new(corev1.ConfigMap)
	if err := json.Unmarshal(body, info); err != nil {
		return nil, refuse("API server %s: its answer is no ConfigMap: %w", a.Server, err)
	}
	return info, nil
}

// signed is the part of the ConfigMap that the token signs.
func signed(info *corev1.ConfigMap, a Argument) (string, error) {
	content, signature := info.Data[bootstrapapi.KubeConfigKey], info.Data[bootstrapapi.JWSSignatureKeyPrefix+a.ID]
	switch {
	case content == "":
		return "", fmt.Errorf("API server %s: ConfigMap %s/%s has no key %s; pintle token create writes it", a.Server, info.Namespace, info.Name, bootstrapapi.KubeConfigKey)
	case signature == "":
		return "", fmt.Errorf("API server %s: token %s has not signed ConfigMap %s/%s: it is unknown, has expired, is none for signing, or the controller bootstrapsigner does not run; pintle token list shows which there are",
			a.Server, a.ID, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo)
	case !jws.DetachedTokenIsValid(signature, content, a.ID, a.Secret):
		return "", refuse("API server %s: the signature of ConfigMap %s/%s is not that of the token %s; the token is wrong, or this is not the API server", a.Server, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo, a.ID)
	}
	return content, nil
}

// authority is the certificate of the kubeconfig whose key has the hash.
func authority(kubeconfig string, a Argument) (*x509.Certificate, error) {
	cfg, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return nil, refuse("API server %s: ConfigMap %s/%s: %w", a.Server, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo, err)
	}
	var seen []string
	for _, cluster := range cfg.Clusters {
		certs, err := certutil.ParseCertsPEM(cluster.CertificateAuthorityData)
		if err != nil {
			continue // it has none
		}
		for _, cert := range certs {
			if Hash(cert) == a.Hash {
				return cert, nil
			}
			seen = append(seen, Hash(cert))
		}
	}
	return nil, refuse("API server %s: the hash of --join is %s, and the cluster's authority has %v; this is another cluster, or somebody is between", a.Server, a.Hash, seen)
}
