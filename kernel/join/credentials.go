package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/connrotation"

	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/kernel/revocation/published"
)

const (
	// lookForRotated is how often a new certificate is looked for, as the kubelet does.
	lookForRotated = 10 * time.Second
	// The kubelet's defaults.
	queriesPerSecond, burst = 50, 100
)

// Credentials are what a node shows the API server, and its clients.
type Credentials struct {
	cluster Cluster
	options Options
	client  kubernetes.Interface
	// transport has the node's identity.
	transport http.RoundTripper

	// clientCA is PEM: the authorities of clients of the node. Those of a machine that joined
	// are the cluster's; with a kubeconfig Verify reads them.
	clientCA []byte
	// revoked is nil before Revocations.
	revoked *published.Follower

	// rotating renews the client certificate; nil where the kubeconfig's is used.
	rotating certificate.Manager
	dialer   *connrotation.Dialer
	// serving is nil before Serve.
	serving atomic.Pointer[certificate.Manager]
}

// newCredentials are those of a machine that has joined.
func newCredentials(c Cluster, o Options, store certificate.Store) (*Credentials, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CA) {
		return nil, fmt.Errorf("cluster of this machine: %s has no authority", KubeconfigFile)
	}
	out := &Credentials{cluster: c, options: o, clientCA: c.CA}
	about := subject(o.Node)
	var err error
	out.rotating, err = certificate.NewManager(&certificate.Config{
		ClientsetFn: func(current *tls.Certificate) (kubernetes.Interface, error) {
			if current == nil {
				return nil, fmt.Errorf("the node's certificate has expired; %s", anew(o.Node))
			}
			return out.client, nil
		},
		Template:   &x509.CertificateRequest{Subject: about},
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, GetUsages: certificate.DefaultKubeletClientGetUsages,
		CertificateStore: store,
	})
	if err != nil {
		return nil, fmt.Errorf("certificate of node %s: %w", o.Node, err)
	}
	out.dialer = connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	transport := utilnet.SetTransportDefaults(&http.Transport{
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 25, DialContext: out.dialer.DialContext,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if current := out.rotating.Current(); current != nil {
				return current, nil
			}
			return &tls.Certificate{}, nil // none: the server says that it wants one
		}},
	})
	out.transport = transport
	out.client, err = kubernetes.NewForConfig(limited(&rest.Config{Host: c.Server, Transport: transport}))
	if err != nil {
		return nil, fmt.Errorf("client of API server %s: %w", c.Server, err)
	}
	return out, nil
}

// anew is what to do about a certificate that has expired: a token does not get that of a Node
// that exists.
func anew(node string) string {
	return fmt.Sprintf("delete the Node where the kernel runs (pintle kubectl delete node %s), then start it again with --join", node)
}

// given are those of a kubeconfig.
func given(c Cluster, o Options, cfg *rest.Config, clientCA []byte) (*Credentials, error) {
	client, err := kubernetes.NewForConfig(limited(cfg))
	if err != nil {
		return nil, fmt.Errorf("client of API server %s: %w", c.Server, err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of API server %s: %w", c.Server, err)
	}
	return &Credentials{cluster: c, options: o, client: client, clientCA: clientCA, transport: transport}, nil
}

func limited(cfg *rest.Config) *rest.Config {
	cfg.QPS, cfg.Burst, cfg.UserAgent = queriesPerSecond, burst, userAgent
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return cfg
}

// Server is the API server's URL.
func (c *Credentials) Server() string { return c.cluster.Server }

// Transport has the node's identity, for requests to Server.
func (c *Credentials) Transport() http.RoundTripper { return c.transport }

// Client has the node's identity.
func (c *Credentials) Client() kubernetes.Interface { return c.client }

// ClientCAs are the authorities of clients of the node.
func (c *Credentials) ClientCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.clientCA)
	return pool
}

// Revocations are the revoked certificates of such clients, with those of an earlier run.
// Follow has to run for later ones. Call it once, after Verify.
func (c *Credentials) Revocations() (*revocation.Guard, error) {
	cas, err := certutil.ParseCertsPEM(c.clientCA)
	if err != nil {
		return nil, fmt.Errorf("authorities of the node's clients: %w", err)
	}
	if c.revoked, err = published.NewFollower(filepath.Join(c.options.pki(), revokedFile), cas, c.options.Logger); err != nil {
		return nil, err
	}
	return c.revoked.Guard(), nil
}

// Follow brings revocations in force until ctx ends.
func (c *Credentials) Follow(ctx context.Context) error { return c.revoked.Run(ctx, c.client) }

// Verify asks the API server who the client is, and which authorities know the node's clients,
// until it answers or ctx ends. An error says that the client is not the node. Those of a machine that
// joined are known to be.
func (c *Credentials) Verify(ctx context.Context) error {
	if c.rotating != nil {
		return nil
	}
	for {
		again, err := c.verify(ctx)
		if !again {
			return err
		}
		c.options.Logger.Warn("the API server does not say whose the kubeconfig is; it is asked again", "server", c.cluster.Server, "error", err)
		select {
		case <-time.After(lookEach):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// verify asks once; again says that another time may help.
func (c *Credentials) verify(ctx context.Context) (again bool, err error) {
	review, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return false, fmt.Errorf("API server %s does not accept the credentials of the kubeconfig: %w", c.cluster.Server, err)
	case err != nil:
		return true, err
	}
	if err := c.isNode(review.Status.UserInfo); err != nil || len(c.clientCA) > 0 {
		return false, err
	}
	return c.readClientCA(ctx)
}

// The ConfigMap in which an API server says which authorities know clients of the cluster.
const (
	authenticationMap = "extension-apiserver-authentication"
	clientCAKey       = "client-ca-file"
)

// readClientCA does not take the API server's own authority: it may be one that signs
// certificates for others, and each of those could claim any name.
func (c *Credentials) readClientCA(ctx context.Context) (again bool, err error) {
	const do = "name the authorities in a file with --client-ca-file, or have pintle token create run where the kernel runs, which lets nodes read it"
	m, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authenticationMap, metav1.GetOptions{})
	if err != nil {
		return !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err),
			fmt.Errorf("API server %s: whose client certificates the node's port takes: ConfigMap %s/%s: %w; %s", c.cluster.Server, metav1.NamespaceSystem, authenticationMap, err, do)
	}
	data := []byte(m.Data[clientCAKey])
	if _, err := certutil.ParseCertsPEM(data); err != nil {
		return false, fmt.Errorf("API server %s: ConfigMap %s/%s: key %s: %w; %s", c.cluster.Server, metav1.NamespaceSystem, authenticationMap, clientCAKey, err, do)
	}
	c.clientCA = data
	return false, nil
}

func (c *Credentials) isNode(who authenticationv1.UserInfo) error {
	if who.Username != User(c.options.Node) || !slices.Contains(who.Groups, nodesGroup) {
		return fmt.Errorf("kubeconfig: its user is %s of the groups %v; want %s of the group %s, whose rights are a node's alone", who.Username, who.Groups, User(c.options.Node), nodesGroup)
	}
	return nil
}

// Run renews the client certificate until ctx ends: at 70 to 90 percent of its life, as the
// kubelet does. Connections with the former one are closed then. Call it once.
func (c *Credentials) Run(ctx context.Context) error {
	if c.rotating == nil {
		<-ctx.Done()
		return nil
	}
	c.rotating.Start()
	defer c.rotating.Stop()
	last := c.rotating.Current()
	tick := time.NewTicker(lookForRotated)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.dialer.CloseAll()
			return nil
		case <-tick.C:
		}
		current := c.rotating.Current()
		switch {
		case current == nil && last != nil:
			c.options.Logger.Error("the node's certificate has expired; its pods go on, and it is not known to the API server", "node", c.options.Node, "do", anew(c.options.Node))
		case current != last && current != nil:
			c.options.Logger.Info("the node's certificate is renewed", "node", c.options.Node, "until", current.Leaf.NotAfter)
			c.dialer.CloseAll()
		}
		last = current
	}
}

// Serve asks for the serving certificate of these addresses, and renews it, until ctx ends.
// The Node object has to have the addresses by then: who approves looks at it. Call it once.
func (c *Credentials) Serve(ctx context.Context, names []string, ips []net.IP) error {
	store, err := certificate.NewFileStore(servingPrefix, c.options.pki(), c.options.pki(), "", "")
	if err != nil {
		return fmt.Errorf("serving certificate of node %s: %w", c.options.Node, err)
	}
	m, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return c.client, nil },
		Template:    &x509.CertificateRequest{Subject: subject(c.options.Node), DNSNames: names, IPAddresses: ips},
		SignerName:  certificatesv1.KubeletServingSignerName, GetUsages: certificate.DefaultKubeletServingGetUsages,
		CertificateStore: store,
	})
	if err != nil {
		return fmt.Errorf("serving certificate of node %s: %w", c.options.Node, err)
	}
	c.serving.Store(&m)
	m.Start()
	defer m.Stop()
	<-ctx.Done()
	return nil
}

// ServingCertificate is for tls.Config.GetCertificate. Without a certificate nobody is
// served: what would be served by another one, clients could not tell from a stranger's.
func (c *Credentials) ServingCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if m := c.serving.Load(); m != nil {
		if current := (*m).Current(); current != nil {
			return current, nil
		}
	}
	return nil, errors.New("no serving certificate available for the node: its request (CSR) of signer kubernetes.io/kubelet-serving is not approved and signed yet")
}
