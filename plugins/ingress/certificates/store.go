package certificates

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/plugins/ingress/routes"
)

const (
	// maxBytes of a certificate with its chain, or of a key.
	maxBytes = 64 << 10
	// askTime bounds one read of a Secret.
	askTime = 10 * time.Second
)

// Errors of a Secret.
var (
	ErrMissing = errors.New("is not found")
	ErrInvalid = errors.New("has no usable certificate")
)

// Store has the certificates of the Secrets that are wanted.
type Store struct {
	client   kubernetes.Interface
	interval time.Duration
	changed  func()
	wake     chan struct{}

	mu      sync.RWMutex
	entries map[routes.SecretName]*entry
}

type entry struct {
	read             bool
	certificate, key []byte
	parsed           *tls.Certificate // the last that was sound
	err              error
}

// New makes a store that calls changed, in Run, when a Secret became another or failed
// otherwise than before.
func New(client kubernetes.Interface, interval time.Duration, changed func()) *Store {
	return &Store{client: client, interval: interval, changed: changed, wake: make(chan struct{}, 1), entries: map[routes.SecretName]*entry{}}
}

// Want says which Secrets are meant from now on; others are forgotten.
func (s *Store) Want(names map[routes.SecretName]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.entries {
		if !names[name] {
			delete(s.entries, name)
		}
	}
	added := false
	for name := range names {
		if s.entries[name] == nil {
			s.entries[name], added = &entry{}, true
		}
	}
	if added {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Get returns the certificate of a Secret, or nil. The error is why there is none, or why
// it is not the Secret's present one; nil also while the Secret was not read yet.
func (s *Store) Get(name routes.SecretName) (*tls.Certificate, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.entries[name]
	if e == nil {
		return nil, nil
	}
	return e.parsed, e.err
}

// Run reads the Secrets until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.Read(ctx, false)
		case <-tick.C:
			s.Read(ctx, true)
		}
	}
}

// Read reads the Secrets that were not read yet, or all.
func (s *Store) Read(ctx context.Context, all bool) {
	s.mu.RLock()
	var names []routes.SecretName
	for name, e := range s.entries {
		if all || !e.read {
			names = append(names, name)
		}
	}
	s.mu.RUnlock()
	other := false
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		other = s.read(ctx, name) || other
	}
	if other && s.changed != nil {
		s.changed()
	}
}

// read reads one Secret and reports whether something is another than before.
func (s *Store) read(ctx context.Context, name routes.SecretName) bool {
	bound, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	secret, err := s.client.CoreV1().Secrets(name.Namespace).Get(bound, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		err = ErrMissing
	case err != nil && ctx.Err() != nil:
		return false // the end of the plugin, not of the Secret
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return false
	}
	before, first := e.err, !e.read
	e.read = true
	if err != nil {
		e.err = err
		if errors.Is(err, ErrMissing) { // deleted: it is not to be served any more
			gone := e.parsed != nil
			e.certificate, e.key, e.parsed = nil, nil, nil
			return gone || first || !same(before, err)
		}
		return first || !same(before, err)
	}
	certificate, key := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	if !first && bytes.Equal(certificate, e.certificate) && bytes.Equal(key, e.key) && (before == nil || errors.Is(before, ErrInvalid)) {
		return false
	}
	parsed, err := parse(certificate, key)
	e.certificate, e.key, e.err = bytes.Clone(certificate), bytes.Clone(key), err
	if len(certificate) > maxBytes || len(key) > maxBytes {
		e.certificate, e.key = nil, nil // nothing of that size is kept
		return first || !same(before, err)
	}
	if err == nil {
		e.parsed = parsed
	}
	return true
}

func same(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

func parse(certificate, key []byte) (*tls.Certificate, error) {
	switch {
	case len(certificate) == 0 || len(key) == 0:
		return nil, fmt.Errorf("%w: it needs the keys %s and %s", ErrInvalid, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case len(certificate) > maxBytes || len(key) > maxBytes:
		return nil, fmt.Errorf("%w: %s and %s have at most %d bytes each", ErrInvalid, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, maxBytes)
	}
	c, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.Leaf == nil {
		if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return &c, nil
}

// Own makes a certificate that no client trusts, for connections that name no host with one.
func Own(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Pintle Ingress"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
