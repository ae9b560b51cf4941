package aggregation

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kube-openapi/pkg/handler3"
)

const (
	// aggregatorUser asks for documents, as of Kubernetes' aggregator.
	aggregatorUser = "system:aggregator"
	// documentsFor bounds how long another server has for one of its documents.
	documentsFor = 30 * time.Second
)

// documents are the OpenAPI documents of one server, for those that merge them: these
// hold locks that every client's request wants, and must not wait for the server.
// fetch asks it, and ServeHTTP gives what it answered.
type documents struct {
	own string // the path of the document of its group version

	mu     sync.RWMutex
	server http.Handler
	latest map[string]*document // by path, while they are merged
	listed bool                 // the server says that it has own
}

func newDocuments(group, version string) *documents {
	return &documents{own: "/openapi/v3/apis/" + group + "/" + version}
}

// from names the server that is asked from now on.
func (d *documents) from(server http.Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = server
}

// fetch asks the server until ctx is done, and keeps its answers until forget.
func (d *documents) fetch(ctx context.Context) {
	d.mu.RLock()
	server := d.server
	d.mu.RUnlock()
	latest := map[string]*document{}
	for _, path := range []string{"/openapi/v2", "/openapi/v3"} {
		latest[path] = ask(ctx, server, path)
	}
	var root handler3.OpenAPIV3Discovery
	answer := latest["/openapi/v3"]
	listed := answer.status == http.StatusOK && json.Unmarshal(answer.body.Bytes(), &root) == nil
	if listed {
		_, listed = root.Paths[d.own[len("/openapi/v3/"):]]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latest = latest
	// One that does not answer now has what it had.
	if answer.status == http.StatusOK || answer.status == http.StatusNotFound {
		d.listed = listed
	}
}

func ask(ctx context.Context, server http.Handler, path string) *document {
	ctx, cancel := context.WithTimeout(request.WithUser(ctx, &user.DefaultInfo{Name: aggregatorUser}), documentsFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		d := newDocument(maxDocument)
		http.Error(d, err.Error(), http.StatusInternalServerError)
		return d
	}
	req.Header.Set("Accept", "application/json")
	return get(server, req, maxDocument)
}

// forget lets the answers go once they are merged.
func (d *documents) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latest = nil
}

// direct is the server, where it has a document of its group version; else nil.
func (d *documents) direct() http.Handler {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if !d.listed {
		return nil
	}
	return d.server
}

// ServeHTTP implements http.Handler.
func (d *documents) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	d.mu.RLock()
	answer := d.latest[req.URL.Path]
	d.mu.RUnlock()
	if answer == nil {
		http.Error(w, "it was not asked for", http.StatusServiceUnavailable)
		return
	}
	maps.Copy(w.Header(), answer.header)
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}
