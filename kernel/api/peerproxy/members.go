package peerproxy

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// announceEvery is how often a kernel says that it lives and reads who else does.
	announceEvery = 10 * time.Second
	// rereadAfter bounds how often somebody unknown makes the list be read again.
	rereadAfter = time.Second
	// storeTimeout bounds one question to the store.
	storeTimeout = 5 * time.Second
	// recordLimit is more than any record has, and memberLimit more kernels than a
	// cluster has.
	recordLimit, memberLimit = 64 << 10, 128
)

// Store keeps the records of kernels, each for a while that is longer than announceEvery.
type Store interface {
	AnnounceServer(ctx context.Context, id string, record []byte) error
	WithdrawServer(ctx context.Context, id string) error
	Servers(ctx context.Context) (map[string][]byte, error)
}

// record is what a kernel says of itself.
type record struct {
	Address string `json:"address"` // IP:port
	// Hostname is its machine: a loopback address is good for those on the same.
	Hostname string `json:"hostname"`
	// Authority is the certificate of who signs those by which it shows itself.
	Authority string `json:"authority"`
}

// Self is what this kernel tells of itself.
type Self struct {
	ID, Hostname string
	// Address is IP:port, where the others reach it.
	Address string
	// Authority is the front proxy's, PEM.
	Authority []byte
}

// Members are the kernels of the cluster that live.
type Members struct {
	self  Self
	store Store
	clock clock.Clock
	log   *slog.Logger

	reading sync.Mutex // one reads at a time
	mu      sync.RWMutex
	read    time.Time // when the list was asked for
	raw     map[string][]byte
	known   map[string]record
	pool    *x509.CertPool // nil: there are no others
}

// NewMembers makes the list, which Run keeps.
func NewMembers(self Self, store Store, clock clock.Clock, log *slog.Logger) *Members {
	return &Members{self: self, store: store, clock: clock, log: log}
}

// Announce says that this kernel lives, and reads who else does.
func (m *Members) Announce(ctx context.Context) error {
	own, err := json.Marshal(record{Address: m.self.Address, Hostname: m.self.Hostname, Authority: string(m.self.Authority)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := m.store.AnnounceServer(ctx, m.self.ID, own); err != nil {
		return err
	}
	return m.refresh(ctx, 0)
}

// Run announces until ctx is done.
func (m *Members) Run(ctx context.Context) {
	tick := m.clock.NewTimer(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		if err := m.Announce(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("other API servers of the cluster do not learn that this one lives", "error", err)
		}
		tick.Reset(announceEvery)
	}
}

// Withdraw takes this kernel from the list.
func (m *Members) Withdraw(ctx context.Context) error { return m.store.WithdrawServer(ctx, m.self.ID) }

// refresh reads the list, unless it was read within the age.
func (m *Members) refresh(ctx context.Context, age time.Duration) error {
	m.reading.Lock()
	defer m.reading.Unlock()
	now := m.clock.Now()
	m.mu.RLock()
	young := age > 0 && !m.read.IsZero() && now.Sub(m.read) < age
	m.mu.RUnlock()
	if young {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	raw, err := m.store.Servers(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read = now
	if err != nil {
		return err
	}
	if equal(raw, m.raw) {
		return nil
	}
	m.raw, m.known, m.pool = raw, map[string]record{}, nil
	for id, data := range raw {
		if id == m.self.ID || len(m.known) == memberLimit {
			continue
		}
		r, ca, err := parse(data)
		if err != nil {
			m.log.Warn("what an API server of the cluster says of itself is not understood", "server", id, "error", err)
			continue
		}
		m.known[id] = r
		if m.pool == nil {
			m.pool = x509.NewCertPool()
		}
		m.pool.AddCert(ca)
	}
	return nil
}

func equal(a, b map[string][]byte) bool {
	if a == nil || b == nil || len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || !bytes.Equal(v, w) {
			return false
		}
	}
	return true
}

// parse reads a record, which another version of the kernel may have written.
func parse(data []byte) (r record, ca *x509.Certificate, err error) {
	if len(data) > recordLimit {
		return r, nil, fmt.Errorf("the record has %d bytes, the limit is %d", len(data), recordLimit)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, nil, err
	}
	host, port, err := net.SplitHostPort(r.Address)
	if err != nil {
		return r, nil, fmt.Errorf("address: %w", err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); net.ParseIP(host) == nil || err != nil || n == 0 {
		return r, nil, fmt.Errorf("address %q: want IP:port", r.Address)
	}
	if ca, err = authority([]byte(r.Authority)); err != nil {
		return r, nil, fmt.Errorf("authority: %w", err)
	}
	return r, ca, nil
}

// errUnknown is about a kernel that is not in the list.
var errUnknown = errors.New("it is not among the API servers that live")

// endpoint is where a kernel is reached.
func (m *Members) endpoint(ctx context.Context, id string) (string, error) {
	r, ok := m.lookup(id)
	if !ok {
		if err := m.refresh(ctx, rereadAfter); err != nil {
			return "", fmt.Errorf("API server %s: %w", id, err)
		}
		if r, ok = m.lookup(id); !ok {
			return "", fmt.Errorf("API server %s: %w", id, errUnknown)
		}
	}
	host, _, err := net.SplitHostPort(r.Address)
	if err != nil {
		return "", err
	}
	if net.ParseIP(host).IsLoopback() && r.Hostname != m.self.Hostname {
		return "", fmt.Errorf("API server %s listens at %s of another machine, %s; set api.advertiseAddress there", id, r.Address, r.Hostname)
	}
	return r.Address, nil
}

func (m *Members) lookup(id string) (record, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, ok := m.known[id]
	return r, ok
}

func (m *Members) authorities() *x509.CertPool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pool
}
