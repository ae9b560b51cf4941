package peerproxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

type memory struct {
	sync.Mutex
	records map[string][]byte
	reads   int
	broken  error
	read    chan struct{} // told of each, where it is set
}

func (m *memory) AnnounceServer(_ context.Context, id string, record []byte) error {
	m.Lock()
	defer m.Unlock()
	m.records[id] = record
	return m.broken
}

func (m *memory) WithdrawServer(_ context.Context, id string) error {
	m.Lock()
	defer m.Unlock()
	delete(m.records, id)
	return m.broken
}

func (m *memory) Servers(context.Context) (map[string][]byte, error) {
	m.Lock()
	defer m.Unlock()
	m.reads++
	if m.read != nil {
		m.read <- struct{}{}
	}
	out := map[string][]byte{}
	for k, v := range m.records {
		out[k] = v
	}
	return out, m.broken
}

func caPEM(t *testing.T, isCA bool) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: isCA, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func announced(t *testing.T, store *memory, id, address, hostname, authority string) {
	t.Helper()
	data, err := json.Marshal(record{address, hostname, authority})
	if err != nil {
		t.Fatal(err)
	}
	store.records[id] = data
}

// TestMembers: what is in the store is read strictly, and seldom.
func TestMembers(t *testing.T) {
	ca := string(caPEM(t, true))
	store := &memory{records: map[string][]byte{"rubbish": []byte("{"), "large": []byte(`{"address":"` + strings.Repeat("1", recordLimit) + `"}`)}}
	announced(t, store, "other", "192.0.2.1:6443", "h2", ca)
	announced(t, store, "here", "127.0.0.1:6444", "h1", ca)
	announced(t, store, "elsewhere", "127.0.0.1:6444", "h2", ca)
	announced(t, store, "name", "evil.example.com:443", "h2", ca)
	announced(t, store, "port", "192.0.2.1:0", "h2", ca)
	announced(t, store, "no authority", "192.0.2.1:1", "h2", "")
	announced(t, store, "two", "192.0.2.1:1", "h2", ca+ca)
	announced(t, store, "leaf", "192.0.2.1:1", "h2", string(caPEM(t, false)))
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	m := NewMembers(Self{ID: "self", Hostname: "h1", Address: "127.0.0.1:1", Authority: []byte(ca)}, store, clock, slog.New(slog.DiscardHandler))
	if _, ok := m.verify(); ok {
		t.Error("somebody is believed before anybody is known")
	}
	if err := m.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"other": "192.0.2.1:6443", "here": "127.0.0.1:6444", "elsewhere": "", "rubbish": "", "large": "", "name": "", "port": "", "no authority": "", "two": "", "leaf": "", "self": "", "": "", "../x": ""} {
		got, err := m.endpoint(t.Context(), id)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is at %q, %v; want %q", id, got, err, want)
		}
	}
	if store.reads != 1 {
		t.Errorf("who is not known makes the list be read %d times", store.reads)
	}
	// A kernel that has just started is found after a second; one that is gone is not.
	announced(t, store, "new", "192.0.2.9:6443", "h9", ca)
	delete(store.records, "other")
	clock.Step(rereadAfter)
	if got, err := m.endpoint(t.Context(), "new"); got == "" {
		t.Error(err)
	}
	if _, err := m.endpoint(t.Context(), "other"); !errors.Is(err, errUnknown) {
		t.Error(err)
	}
	// While the store does not answer the list stays.
	store.broken = errors.New("boom")
	clock.Step(rereadAfter)
	if err := m.refresh(t.Context(), 0); err == nil {
		t.Error("no error")
	}
	if got, _ := m.endpoint(t.Context(), "new"); got == "" {
		t.Error("the list is lost")
	}
	store.broken = nil
	if err := m.Withdraw(t.Context()); err != nil || store.records["self"] != nil {
		t.Error(err)
	}
	// The last other one goes, and nobody is believed.
	clear(store.records)
	if err := m.refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.verify(); ok {
		t.Error("somebody is believed, and nobody is there")
	}
}

// TestRun announces again and again until it is stopped.
func TestRun(t *testing.T) {
	store := &memory{records: map[string][]byte{}, read: make(chan struct{}, 1)}
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	m := NewMembers(Self{ID: "self", Address: "192.0.2.1:1", Authority: caPEM(t, true)}, store, clock, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	for range 2 {
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
		clock.Step(announceEvery)
		<-store.read
	}
	cancel()
	running.Wait()
}

// TestTransport: what peers may answer.
func TestTransport(t *testing.T) {
	hang := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	elsewhere := 0
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer evil.Close()
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/redirect", "/apis":
			http.Redirect(w, req, evil.URL, http.StatusTemporaryRedirect)
		case "/stranger":
			w.WriteHeader(http.StatusUnauthorized)
		case "/hang":
			cancel()
			<-hang
		case "/fine":
			w.WriteHeader(http.StatusTeapot)
		case "/api":
			w.WriteHeader(200)
			block := make([]byte, 1<<20)
			for range 2 * discoveryLimit >> 20 {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}
	}))
	defer peer.Close()
	defer close(hang)
	way := guarded{http.DefaultTransport}
	get := func(ctx context.Context, url string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return way.RoundTrip(req)
	}
	for url, want := range map[string]string{
		peer.URL + "/redirect":            "answered with a redirect (307), which is not followed",
		peer.URL + "/stranger":            "does not know this API server as one of its cluster",
		"http://127.0.0.1:1/apis/g/v1/rs": "serves this resource, and does not answer",
	} {
		res, err := get(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var status metav1.Status
		if err := json.NewDecoder(res.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 503 || status.Code != 503 || status.Reason != metav1.StatusReasonServiceUnavailable || !strings.Contains(status.Message, want) || status.Kind != "Status" {
			t.Errorf("%s: %d %+v", url, res.StatusCode, status)
		}
	}
	if res, err := get(t.Context(), peer.URL+"/fine"); err != nil || res.StatusCode != http.StatusTeapot {
		t.Errorf("an answer: %v, %v", res, err)
	} else {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	// Nobody waits longer than the client; discovery is bounded, and not led elsewhere.
	if _, err := get(ctx, peer.URL+"/hang"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for path, want := range map[string]string{"/api": "too large", "/apis": "redirect"} {
		if _, err := get(t.Context(), peer.URL+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"address":"192.0.2.1:6443","hostname":"h","authority":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, ca, err := parse(data); err == nil && (ca == nil || r.Address == "") {
			t.Errorf("%q gives %+v", data, r)
		}
	})
}
