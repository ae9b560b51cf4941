package join

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"

	"pintle.dev/pintle/kernel/secretfile"
)

const (
	// KubeconfigFile is the file of the data directory that says to which cluster the
	// machine belongs. Its user is the node, by the certificate in pki/.
	KubeconfigFile = "node.kubeconfig"

	pkiDirectory  = "pki"
	clientPrefix  = "kubelet-client" // of the kubelet's files, too
	servingPrefix = "kubelet-server"
	revokedFile   = "ca.crl" // of pki/, as a kernel's
	userAgent     = "pintle-node"
)

// ErrNotJoined says that the machine belongs to no cluster, or that its certificate has
// expired.
var ErrNotJoined = errors.New("this machine has not joined a cluster")

// Options say who a machine is.
type Options struct {
	// Data is the data directory, Node the name of the node.
	Data, Node string
	// Progress is called for steps that take time; nil: it is not called.
	Progress func(format string, args ...any)
	Logger   *slog.Logger
}

func (o *Options) pki() string { return filepath.Join(o.Data, pkiDirectory) }

// Open is the membership of a machine that has joined. The error is ErrNotJoined where it has
// not, or where its client certificate has expired, as after a year without the API server.
func Open(o Options) (*Credentials, error) {
	path := filepath.Join(o.Data, KubeconfigFile)
	data, err := secretfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s", ErrNotJoined, path)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster of this machine: %w", err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("cluster of this machine: %s: %w", path, err)
	}
	c := Cluster{Server: cfg.Host, CA: cfg.CAData}
	store, err := certificate.NewFileStore(clientPrefix, o.pki(), o.pki(), "", "")
	if err != nil {
		return nil, fmt.Errorf("certificate of node %s: %w", o.Node, err)
	}
	current, err := store.Current()
	var none *certificate.NoCertKeyError
	switch {
	case errors.As(err, &none):
		return nil, fmt.Errorf("%w: there is no certificate in %s", ErrNotJoined, o.pki())
	case err != nil:
		return nil, fmt.Errorf("certificate of node %s: %w", o.Node, err)
	case current.Leaf.Subject.CommonName != User(o.Node):
		return nil, fmt.Errorf("this machine joined as %s, and the node's name is %s now; set node.name, or remove %s and %s to join anew", current.Leaf.Subject.CommonName, o.Node, path, o.pki())
	case time.Now().After(current.Leaf.NotAfter):
		return nil, fmt.Errorf("%w: the certificate in %s expired at %s; %s", ErrNotJoined, o.pki(), current.Leaf.NotAfter.UTC().Format(time.RFC3339), anew(o.Node))
	}
	return newCredentials(c, o, store)
}

// Join has the machine join the cluster of an argument, unless it has. Of the same cluster at
// another address, the machine keeps the address once the API server has answered there. ctx
// bounds how long that may take.
func Join(ctx context.Context, a Argument, o Options) (*Credentials, error) {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	have, err := Open(o)
	if err == nil {
		if err := have.is(a); err != nil {
			return nil, err
		}
		return have.at(ctx, a)
	}
	if !errors.Is(err, ErrNotJoined) {
		return nil, err
	}
	c, err := Discover(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	client, err := asToken(c, a)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	certPEM, keyPEM, err := request(ctx, client, c, a, &o)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	store, err := certificate.NewFileStore(clientPrefix, o.pki(), o.pki(), "", "")
	if err == nil {
		_, err = store.Update(certPEM, keyPEM)
	}
	if err != nil {
		return nil, fmt.Errorf("join: keep the certificate: %w", err)
	}
	// Last: without it the machine has not joined.
	if err := errors.Join(writeKubeconfig(c, o, store.CurrentPath()), forgetKey(&o)); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	return newCredentials(c, o, store)
}

// is says whether the machine belongs to the cluster of an argument.
func (c *Credentials) is(a Argument) error {
	certs, err := certutil.ParseCertsPEM(c.cluster.CA)
	if err != nil {
		return fmt.Errorf("cluster of this machine: %w", err)
	}
	if hash := Hash(certs[0]); hash != a.Hash {
		return fmt.Errorf("this machine belongs to another cluster, %s with the hash %s; remove %s of the data directory to join anew", c.cluster.Server, hash, KubeconfigFile)
	}
	return nil
}

// at is the same membership at an argument's address: c, where that is the one it has.
func (c *Credentials) at(ctx context.Context, a Argument) (*Credentials, error) {
	if c.cluster.Server == a.url() {
		return c, nil
	}
	next, err := Discover(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("this machine has joined at %s, and --join has another address: %w; leave it out to stay there", c.cluster.Server, err)
	}
	o := c.options
	store, err := certificate.NewFileStore(clientPrefix, o.pki(), o.pki(), "", "")
	if err != nil {
		return nil, fmt.Errorf("certificate of node %s: %w", o.Node, err)
	}
	out, err := newCredentials(next, o, store)
	if err != nil {
		return nil, err
	}
	if err := writeKubeconfig(next, o, store.CurrentPath()); err != nil {
		return nil, fmt.Errorf("address %s of the API server: %w", next.Server, err)
	}
	return out, nil
}

func writeKubeconfig(c Cluster, o Options, pair string) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["cluster"] = &clientcmdapi.Cluster{Server: c.Server, CertificateAuthorityData: c.CA}
	cfg.AuthInfos["node"] = &clientcmdapi.AuthInfo{ClientCertificate: pair, ClientKey: pair}
	cfg.Contexts["node"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "node"}
	cfg.CurrentContext = "node"
	data, err := clientcmd.Write(*cfg)
	if err != nil {
		return fmt.Errorf("kubeconfig of node %s: %w", o.Node, err)
	}
	return secretfile.Write(filepath.Join(o.Data, KubeconfigFile), data, 0o600)
}

// FromKubeconfig has the credentials of a kubeconfig, whose user has to be the node: Verify
// asks. They are used as they are and not renewed. clientCA is PEM, the authorities of the
// node's clients; nil: Verify reads them in the cluster.
func FromKubeconfig(cfg *rest.Config, clientCA []byte, o Options) (*Credentials, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.Insecure {
		return nil, errors.New("kubeconfig: insecure-skip-tls-verify would let anybody be the API server; name the cluster's certificate-authority")
	}
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(cfg.CAData) {
		return nil, errors.New("kubeconfig: has no certificate-authority, by which the API server is known")
	}
	if err := secretfile.MakeDirectory(o.pki()); err != nil {
		return nil, err
	}
	return given(Cluster{Server: cfg.Host, CA: cfg.CAData}, o, cfg, clientCA)
}
