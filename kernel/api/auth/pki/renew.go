package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"
)

const (
	// checkEvery is how often the directory is read again, as often as upstream's
	// servers do with theirs.
	checkEvery = time.Minute
	// An authority that ends within warnCA is told of once in warnAgain.
	warnCA    = 180 * 24 * time.Hour
	warnAgain = 24 * time.Hour
)

// Leaf is a certificate of the directory that is renewed in time. Its methods
// give the present one to servers and clients that run.
type Leaf struct {
	file string
	want profile

	mu        sync.RWMutex
	pair      Pair
	loaded    tls.Certificate
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*Leaf)(nil)

// leaf opens or issues a certificate, and has it renewed from now on.
func (p *PKI) leaf(file string, want profile) (*Leaf, error) {
	pair, err := p.ensure(file, want)
	if err != nil {
		return nil, err
	}
	l := &Leaf{file: file, want: want}
	if err := l.take(pair); err != nil {
		return nil, err
	}
	p.leavesMu.Lock()
	defer p.leavesMu.Unlock()
	// The last one asked for says what the file is to be.
	p.leaves = append(slices.DeleteFunc(p.leaves, func(o *Leaf) bool { return o.file == file }), l)
	p.inUse[file] = fmt.Sprintf("%x", pair.Cert.SerialNumber)
	return l, nil
}

func (l *Leaf) take(pair Pair) error {
	loaded, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", l.file, err)
	}
	l.mu.Lock()
	l.pair, l.loaded = pair, loaded
	listeners := slices.Clone(l.listeners)
	l.mu.Unlock()
	for _, o := range listeners {
		o.Enqueue()
	}
	return nil
}

// Pair is the present certificate with its key.
func (l *Leaf) Pair() Pair {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.pair
}

// Certificate is the present one, as client-go's transports ask for it.
func (l *Leaf) Certificate() (*tls.Certificate, error) { return l.certificate(), nil }

func (l *Leaf) certificate() *tls.Certificate {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := l.loaded
	return &out
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (l *Leaf) Name() string { return l.file }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (l *Leaf) CurrentCertKeyContent() (cert, key []byte) {
	pair := l.Pair()
	return pair.CertPEM, pair.KeyPEM
}

// AddListener implements dynamiccertificates.Notifier.
func (l *Leaf) AddListener(o dynamiccertificates.Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, o)
}

// GetCertificate is for the tls.Config of a server.
func (l *Leaf) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return l.certificate(), nil
}

// GetClientCertificate is for the tls.Config of a client.
func (l *Leaf) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return l.certificate(), nil
}

// Renew reads the directory again and issues what ends soon, is gone or is not
// as it should be. It returns the names of what is new.
func (p *PKI) Renew() (renewed []string, err error) {
	p.leavesMu.Lock()
	leaves := slices.Clone(p.leaves)
	p.leavesMu.Unlock()
	var errs []error
	for _, l := range leaves {
		pair, err := p.ensure(l.file, l.want)
		if err == nil && !bytes.Equal(pair.CertPEM, l.Pair().CertPEM) {
			if err = l.take(pair); err == nil {
				renewed = append(renewed, l.file)
			}
		}
		if err != nil {
			left := l.Pair().Cert.NotAfter
			errs = append(errs, fmt.Errorf("renew certificate %s, which ends at %s: %w", p.path(l.file+".crt"), left.UTC().Format(time.RFC3339), err))
		}
	}
	if front := p.openedFrontProxy(); front != nil {
		names, err := front.p.Renew()
		renewed, errs = append(renewed, names...), append(errs, err)
	}
	return renewed, errors.Join(errs...)
}

// InUse are the serial numbers of the certificates that the kernel has taken up, by
// name, with the kubeconfigs that hang on them.
func (p *PKI) InUse() map[string]string {
	p.leavesMu.Lock()
	defer p.leavesMu.Unlock()
	return maps.Clone(p.inUse)
}

// settle notes what is taken up now.
func (p *PKI) settle() {
	p.leavesMu.Lock()
	defer p.leavesMu.Unlock()
	for _, l := range p.leaves {
		p.inUse[l.file] = fmt.Sprintf("%x", l.Pair().Cert.SerialNumber)
	}
}

// Look has Keep read the directory now.
func (p *PKI) Look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Keep renews as long as ctx is there. renewed is called after certificates
// changed.
func (p *PKI) Keep(ctx context.Context, log *slog.Logger, c clock.WithTicker, renewed func() error) {
	ticker := c.NewTicker(checkEvery)
	defer ticker.Stop()
	var warned time.Time
	for {
		if left := p.ca.NotAfter.Sub(c.Now()); left < warnCA && c.Since(warned) >= warnAgain {
			warned = c.Now()
			log.Warn("the cluster's CA ends soon and is never replaced by itself: move pki/ away and start over with new keys before",
				"file", p.CAFile(), "ends", p.ca.NotAfter.UTC().Format(time.RFC3339))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		case <-p.wake:
		}
		names, err := p.Renew()
		if err != nil {
			log.Warn("a certificate cannot be renewed", "error", err)
		}
		if len(names) == 0 {
			continue
		}
		log.Info("certificates renewed", "names", names)
		if err := renewed(); err != nil {
			log.Warn("kubeconfigs of renewed certificates cannot be written", "error", err)
		}
		p.settle()
	}
}

var expiration = prometheus.NewDesc("pintle_certificate_expiration_timestamp_seconds",
	"When a certificate of the data directory ends, in seconds since 1970.", []string{"certificate"}, nil)

// Describe implements prometheus.Collector.
func (p *PKI) Describe(ch chan<- *prometheus.Desc) { ch <- expiration }

// Collect implements prometheus.Collector.
func (p *PKI) Collect(ch chan<- prometheus.Metric) {
	p.leavesMu.Lock()
	leaves := slices.Clone(p.leaves)
	p.leavesMu.Unlock()
	for _, l := range leaves {
		ch <- prometheus.MustNewConstMetric(expiration, prometheus.GaugeValue, float64(l.Pair().Cert.NotAfter.Unix()), l.file)
	}
	ch <- prometheus.MustNewConstMetric(expiration, prometheus.GaugeValue, float64(p.ca.NotAfter.Unix()), p.authorityFile())
	if front := p.openedFrontProxy(); front != nil {
		front.p.Collect(ch)
	}
}
