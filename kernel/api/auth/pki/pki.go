package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/kernel/secretfile"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// A leaf with less than renewBefore left is issued again by Open.
	renewBefore = 30 * 24 * time.Hour
	// backdate lets clients whose clock runs a little behind accept a new
	// certificate.
	backdate = 5 * time.Minute
)

// Config says where the keys lie and which names the API server answers to.
type Config struct {
	// Dir is the directory of the keys; created with mode 0700.
	Dir string
	// AdvertiseIPs are the addresses clients reach the API server at besides
	// loopback, which is always named.
	AdvertiseIPs []net.IP
	// ServiceIP is the cluster IP of the service default/kubernetes.
	ServiceIP net.IP
	// Hostnames are further DNS names of the API server.
	Hostnames []string
	// ClusterDomain is the DNS domain of services, cluster.local when empty.
	ClusterDomain string
	// Now is the clock, time.Now when nil.
	Now func() time.Time

	authority string // name of the CA, "kubernetes" when empty
}

// Pair is one certificate with its key, on disk and in memory.
type Pair struct {
	CertFile, KeyFile string
	CertPEM, KeyPEM   []byte
	Cert              *x509.Certificate
}

// PKI is the open directory. It is safe for concurrent use.
type PKI struct {
	cfg    Config
	mu     sync.Mutex // serialises issuing
	ca     *x509.Certificate
	caPEM  []byte
	caKey  *ecdsa.PrivateKey
	saKey  *ecdsa.PrivateKey
	server *Leaf
	admin  *Leaf
	super  *Leaf
	node   *Leaf // kubelet client: API server to nodes

	front *FrontProxy // opened when it is asked for

	records records // of what was issued

	guard *revocation.Guard // refuses what ca.crl names
	wake  chan struct{}     // tells Keep to look now

	leavesMu sync.Mutex
	leaves   []*Leaf
	inUse    map[string]string // serial numbers, by name
}

// RevocationFile is the list of revoked certificates, in the directory.
const RevocationFile = "ca.crl"

// ClusterAdminsGroup is the group of the administrator's certificate. It may do
// what a ClusterRoleBinding gives it.
const ClusterAdminsGroup = "pintle:cluster-admins"

// Open loads the directory and creates or renews what it lacks. Errors name
// the file and what to do.
func Open(cfg Config) (*PKI, error) {
	if cfg.Dir == "" {
		return nil, fmt.Errorf("pki: no directory given")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.ClusterDomain == "" {
		cfg.ClusterDomain = "cluster.local"
	}
	p, err := openAuthority(cfg)
	if err != nil {
		return nil, err
	}
	if p.saKey, err = p.loadTokenKey(); err != nil {
		return nil, fmt.Errorf("pki: service account key: %w", err)
	}
	if p.server, err = p.leaf("apiserver", p.serverProfile()); err != nil {
		return nil, fmt.Errorf("pki: serving certificate: %w", err)
	}
	// A directory of an earlier release has an administrator of system:masters; the other group makes it anew.
	if p.admin, err = p.clientLeaf("admin", "kubernetes-admin", ClusterAdminsGroup); err != nil {
		return nil, err
	}
	if p.super, err = p.clientLeaf("super-admin", "kubernetes-super-admin", user.SystemPrivilegedGroup); err != nil {
		return nil, err
	}
	if p.node, err = p.clientLeaf("apiserver-kubelet-client", "kube-apiserver-kubelet-client"); err != nil {
		return nil, err
	}
	return p, nil
}

// openAuthority loads the CA and the list of what it revoked.
func openAuthority(cfg Config) (*PKI, error) {
	if err := secretfile.MakeDirectory(cfg.Dir); err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	p := &PKI{cfg: cfg, wake: make(chan struct{}, 1), inUse: map[string]string{}}
	if err := p.loadCA(); err != nil {
		return nil, fmt.Errorf("pki: cluster CA: %w", err)
	}
	list, err := revocation.Read(p.path(RevocationFile), p.ca)
	if err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	p.guard = revocation.NewGuard(list)
	return p, nil
}

// OpenAuthority loads the CA of a directory, which has one, and what it revoked.
func OpenAuthority(dir string) (*PKI, error) {
	if have, err := exists(filepath.Join(dir, "ca.crt")); err != nil || !have {
		return nil, errors.Join(fmt.Errorf("no cluster's CA in %s: name the data directory of a kernel that has run", dir), err)
	}
	return openAuthority(Config{Dir: dir, Now: time.Now})
}

// Directory is where the keys lie.
func (p *PKI) Directory() string { return p.cfg.Dir }

// CA is the cluster CA's certificate.
func (p *PKI) CA() *x509.Certificate { return p.ca }

// Secret is known to who has the CA's key alone: kernels seal by it what they hand
// each other.
func (p *PKI) Secret() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.caKey)
	if err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	return der, nil
}

// SignRevocations gives a list as PEM, signed by the CA, with more serial numbers.
func (p *PKI) SignRevocations(l *revocation.List, more ...*big.Int) (*revocation.List, []byte, error) {
	return l.Sign(p.ca, p.caKey, p.cfg.Now(), more...)
}

// Guard refuses the certificates that were revoked.
func (p *PKI) Guard() *revocation.Guard { return p.guard }

// CAFile is the path of the cluster CA's certificate.
func (p *PKI) CAFile() string { return p.path("ca.crt") }

// CAPEM is the cluster CA's certificate as PEM.
func (p *PKI) CAPEM() []byte { return p.caPEM }

// CAPool holds the cluster CA alone.
func (p *PKI) CAPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.ca)
	return pool
}

// Serving is the API server's certificate.
func (p *PKI) Serving() Pair { return p.server.Pair() }

// ServingLeaf is the same, and what comes after it.
func (p *PKI) ServingLeaf() *Leaf { return p.server }

// Admin is the client certificate of group ClusterAdminsGroup.
func (p *PKI) Admin() Pair { return p.admin.Pair() }

// SuperAdmin is the client certificate of group system:masters, which no rule
// can take rights from.
func (p *PKI) SuperAdmin() Pair { return p.super.Pair() }

// KubeletClient is the certificate the API server shows to node agents.
func (p *PKI) KubeletClient() *Leaf { return p.node }

// Client returns the client certificate of a user, issued on first use; file
// is the base name in the directory.
func (p *PKI) Client(file, user string, groups ...string) (Pair, error) {
	leaf, err := p.clientLeaf(file, user, groups...)
	if err != nil {
		return Pair{}, err
	}
	return leaf.Pair(), nil
}

func (p *PKI) clientLeaf(file, user string, groups ...string) (*Leaf, error) {
	leaf, err := p.leaf(file, profile{
		subject: pkix.Name{CommonName: user, Organization: groups},
		usage:   x509.ExtKeyUsageClientAuth,
	})
	if err != nil {
		return nil, fmt.Errorf("pki: client certificate of %q: %w", user, err)
	}
	return leaf, nil
}

// Node returns the client certificate (user system:node:NAME, group
// system:nodes) and the serving certificate of a node.
func (p *PKI) Node(name string, ips []net.IP, hostnames ...string) (client, serving *Leaf, err error) {
	if name == "" || name != filepath.Base(name) || name[0] == '.' {
		return nil, nil, fmt.Errorf("pki: node %q: not a node name", name)
	}
	user := "system:node:" + name
	if client, err = p.clientLeaf("node-"+name+"-client", user, "system:nodes"); err != nil {
		return nil, nil, err
	}
	serving, err = p.leaf("node-"+name+"-server", profile{
		subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}},
		usage:   x509.ExtKeyUsageServerAuth,
		dns:     unique(append([]string{name, "localhost"}, hostnames...)),
		ips:     uniqueIPs(append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, ips...)),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("pki: serving certificate of node %q: %w", name, err)
	}
	return client, serving, nil
}

func (p *PKI) path(file string) string { return filepath.Join(p.cfg.Dir, file) }

func (p *PKI) loadCA() error {
	certFile, keyFile := p.path("ca.crt"), p.path("ca.key")
	haveCert, err := exists(certFile)
	if err != nil {
		return err
	}
	haveKey, err := exists(keyFile)
	if err != nil {
		return err
	}
	switch {
	case haveCert && !haveKey:
		return fmt.Errorf("%s is missing while %s is there; restore it from a backup", keyFile, certFile)
	case haveKey && !haveCert:
		// The key alone is what a crash of the first start leaves: nothing was
		// signed yet, so its certificate can be made now.
		if p.caKey, err = readKey(keyFile); err != nil {
			return err
		}
		return p.createCA(certFile)
	case haveCert:
		if p.caKey, err = readKey(keyFile); err != nil {
			return err
		}
		if p.ca, err = readCert(certFile); err != nil {
			return err
		}
		if !p.caKey.PublicKey.Equal(p.ca.PublicKey) {
			return fmt.Errorf("%s and %s do not belong together; restore both from one backup", certFile, keyFile)
		}
		if !p.ca.IsCA {
			return fmt.Errorf("%s: not a CA certificate", certFile)
		}
		if p.cfg.Now().After(p.ca.NotAfter) {
			return fmt.Errorf("%s: expired at %s; a CA is never replaced by itself: move %s away to start over with new keys",
				certFile, p.ca.NotAfter.UTC().Format(time.RFC3339), p.cfg.Dir)
		}
		p.caPEM = pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: p.ca.Raw})
		return nil
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	if err := secretfile.Write(keyFile, keyPEM, 0o600); err != nil {
		return err
	}
	p.caKey = key
	return p.createCA(certFile)
}

func (p *PKI) createCA(certFile string) error {
	serial, err := newSerial()
	if err != nil {
		return err
	}
	now := p.cfg.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: p.authorityName()},
		DNSNames:              []string{p.authorityName()},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &p.caKey.PublicKey, p.caKey)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	p.caPEM = pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der})
	return secretfile.Write(certFile, p.caPEM, 0o644)
}

func (p *PKI) loadTokenKey() (*ecdsa.PrivateKey, error) {
	file := p.path("sa.key")
	have, err := exists(file)
	if err != nil {
		return nil, err
	}
	if have {
		return readKey(file)
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	return key, secretfile.Write(file, keyPEM, 0o600)
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}
