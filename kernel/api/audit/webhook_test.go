package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/component-base/metrics/legacyregistry"
)

// receiver is a server that events are posted to.
type receiver struct {
	mu   sync.Mutex
	seen map[types.UID]auditv1.Event
	more chan struct{}
	down int // requests that it refuses yet
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var list auditv1.EventList
	err := json.NewDecoder(req.Body).Decode(&list)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down > 0 || err != nil {
		r.down--
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	for _, e := range list.Items {
		r.seen[e.AuditID] = e
	}
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *receiver) await(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		got := len(r.seen)
		r.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-r.more:
		case <-deadline:
			t.Fatalf("%d events came, want %d", got, n)
		}
	}
}

// backend makes the backend that posts to a server.
func backend(t *testing.T, h http.Handler) audit.Backend {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %s}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{WebhookConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	return a.Backend
}

func events(from, to int) (all []*auditinternal.Event) {
	for i := from; i < to; i++ {
		all = append(all, &auditinternal.Event{
			AuditID: types.UID(fmt.Sprint(i)), Level: auditinternal.LevelMetadata, Stage: auditinternal.StageResponseComplete, Verb: "get", RequestURI: "/api/v1/secrets",
		})
	}
	return all
}

// Every event reaches the server: also when it refuses some requests, and what waited when the kernel stops.
func TestWebhook(t *testing.T) {
	t.Parallel()
	r := &receiver{seen: map[types.UID]auditv1.Event{}, more: make(chan struct{}, 1), down: 1}
	b := backend(t, r)
	stop := make(chan struct{})
	if err := b.Run(stop); err != nil {
		t.Fatal(err)
	}
	if !b.ProcessEvents(events(0, webhookBatch)...) {
		t.Fatal("events were not taken")
	}
	r.await(t, webhookBatch)
	if !b.ProcessEvents(events(webhookBatch, webhookBatch+7)...) {
		t.Fatal("events were not taken")
	}
	close(stop)
	b.Shutdown()
	r.await(t, webhookBatch+7)
	if e := r.seen["3"]; e.Verb != "get" || e.RequestURI != "/api/v1/secrets" || e.Level != auditv1.LevelMetadata || e.APIVersion != "" {
		t.Errorf("event: %+v", e)
	}
}

// A server that never answers holds nobody up: what does not fit the buffer is dropped and counted.
func TestWebhookHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := backend(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	stop := make(chan struct{})
	if err := b.Run(stop); err != nil {
		t.Fatal(err)
	}
	defer b.Shutdown()
	defer close(release)
	defer close(stop)
	before := dropped(t)
	for i := range 40 { // sixteen batches may be on their way besides
		b.ProcessEvents(events(i*1000, (i+1)*1000)...)
	}
	if dropped(t) == before {
		t.Error("nothing was counted as dropped")
	}
}

// dropped is how many events were counted as lost.
func dropped(t *testing.T) (n float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), "apiserver_audit_error_total") {
			for _, m := range f.Metric {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}
