package aggregation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	v2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	v3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	// Documents of other servers are asked for a moment after their APIService
	// changed, and then as often as kube-apiserver asks.
	openAPISoon, openAPIEvery, openAPIRetryMax = time.Second, time.Minute, time.Hour
	// downloads are under way at a time: one that hangs holds up nobody else's.
	downloads = 5
)

// openapi joins the OpenAPI documents of other servers with the kernel's. Those of
// the others are asked for in advance, the kernel's with each request.
type openapi struct {
	queue workqueue.TypedRateLimitingInterface[string]
	local *latestHandler
	v2    v2.SpecAggregator
	mux2  *mux.PathRecorderMux

	mu sync.RWMutex
	v3 map[string]*versioned // by the name of the APIService
}

// versioned is what one APIService has of OpenAPI v3. Each has its own, so that none
// can speak for another.
type versioned struct {
	spec v3.SpecProxier
	mux  *mux.PathRecorderMux
	docs *documents
}

func newOpenAPI(a *Aggregator) (*openapi, error) {
	o := &openapi{
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](openAPIEvery, openAPIRetryMax),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "open_api_aggregation_controller"}),
		local: &latestHandler{}, mux2: mux.NewPathRecorderMux("openapi v2"), v3: map[string]*versioned{},
	}
	downloader := v2.NewDownloader()
	var err error
	if o.v2, err = v2.BuildAndRegisterAggregator(&downloader, delegate{handler: o.local}, nil, a.cfg.OpenAPI(), o.mux2); err != nil {
		return nil, fmt.Errorf("aggregation: openapi v2: %w", err)
	}
	return o, nil
}

// delegate gives the kernel's own handler to the aggregator of OpenAPI v2.
type delegate struct {
	genericapiserver.DelegationTarget
	handler http.Handler
}

func (d delegate) UnprotectedHandler() http.Handler                { return d.handler }
func (d delegate) ListedPaths() []string                           { return []string{"/openapi/v2"} }
func (d delegate) NextDelegate() genericapiserver.DelegationTarget { return nil }

// latestHandler serves by the handler that the latest request came with.
type latestHandler struct {
	mu   sync.RWMutex
	next http.Handler
}

func (h *latestHandler) set(next http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = next
}

// ServeHTTP implements http.Handler.
func (h *latestHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.mu.RLock()
	next := h.next
	h.mu.RUnlock()
	next.ServeHTTP(w, req)
}

// run downloads until ctx is done.
func (o *openapi) run(ctx context.Context) {
	var group sync.WaitGroup
	for range downloads {
		group.Go(func() {
			for ctx.Err() == nil && o.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	o.queue.ShutDown()
	group.Wait()
}

func (o *openapi) next(ctx context.Context) bool {
	name, done := o.queue.Get()
	if done {
		return false
	}
	defer o.queue.Done(name)
	switch err := o.download(ctx, name); {
	case errors.Is(err, v2.ErrAPIServiceNotFound) && o.versioned(name) == nil:
		o.queue.Forget(name)
	case err != nil && !errors.Is(err, v2.ErrAPIServiceNotFound):
		o.queue.AddRateLimited(name)
	default:
		o.queue.Forget(name)
		o.queue.AddAfter(name, openAPIEvery)
	}
	return true
}

// download asks for both documents of an APIService, until ctx is done. A server that
// has none of one sort is no error.
func (o *openapi) download(ctx context.Context, name string) (err error) {
	defer func() {
		if p := recover(); p != nil { // a document that nobody thought of
			err = fmt.Errorf("openapi of %s: %v", name, p)
		}
	}()
	d := o.versioned(name)
	if d == nil {
		return v2.ErrAPIServiceNotFound
	}
	d.docs.fetch(ctx)
	defer d.docs.forget()
	err3 := d.spec.UpdateAPIServiceSpec(name)
	return errors.Join(o.v2.UpdateAPIServiceSpec(name), err3)
}

func (o *openapi) versioned(name string) *versioned {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.v3[name]
}

// take tells of an APIService that is new or has changed.
func (o *openapi) take(s *apiregistrationv1.APIService, h http.Handler) error {
	d := o.versioned(s.Name)
	if d == nil {
		d = &versioned{mux: mux.NewPathRecorderMux("openapi v3 of " + s.Name), docs: newDocuments(s.Spec.Group, s.Spec.Version)}
		var err error
		if d.spec, err = v3.BuildAndRegisterAggregator(v3.NewDownloader(), nil, nil, nil, d.mux); err != nil {
			return fmt.Errorf("aggregation: openapi v3: %w", err)
		}
		o.mu.Lock()
		o.v3[s.Name] = d
		o.mu.Unlock()
	}
	d.docs.from(vetted(h))
	d.spec.AddUpdateAPIService(d.docs, s)
	if err := o.v2.AddUpdateAPIService(s, d.docs); err != nil {
		return fmt.Errorf("aggregation: openapi v2: %w", err)
	}
	o.queue.Forget(s.Name)
	o.queue.AddAfter(s.Name, openAPISoon)
	return nil
}

// leave tells of one that is gone, or is served here.
func (o *openapi) leave(name string) {
	o.mu.Lock()
	delete(o.v3, name)
	o.mu.Unlock()
	o.v2.RemoveAPIService(name)
	o.queue.Forget(name)
}

// vetted keeps documents from those that merge them which cannot be merged: one
// server's would be the end of everybody's.
func vetted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/openapi/v2" {
			h.ServeHTTP(w, req)
			return
		}
		d := get(h, req, maxDocument)
		if d.status == http.StatusOK {
			if err := mergeable(d.body.Bytes()); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
		d.send(w)
	})
}

func mergeable(data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the OpenAPI document cannot be read: %v", p)
		}
	}()
	doc := &spec.Swagger{}
	if err := doc.UnmarshalJSON(data); err != nil {
		return fmt.Errorf("the OpenAPI document cannot be read: %w", err)
	}
	_ = openapiconv.ConvertV2ToV3(doc)
	own := aggregator.FilterSpecByPathsWithoutSideEffects(doc, []string{"/apis/"})
	if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(&spec.Swagger{}, own); err != nil {
		return fmt.Errorf("the OpenAPI document cannot be merged: %w", err)
	}
	return nil
}

// route serves what is below /openapi/ where other servers take part in it; nil where
// the kernel alone does.
func (o *openapi) route(t *table, next http.Handler, what string) http.Handler {
	switch {
	case what == "v2":
		o.local.set(next)
		return o.mux2
	case what == "v3":
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { o.root(t, next, w, req) })
	}
	rest, ok := strings.CutPrefix(what, "v3/apis/")
	if !ok {
		return nil
	}
	group, version, _ := strings.Cut(rest, "/")
	gv := schema.GroupVersion{Group: group, Version: version}
	if t.handlers[gv] == nil {
		return nil
	}
	if d := o.versioned(version + "." + group); d != nil {
		if h := d.docs.direct(); h != nil {
			return h
		}
		return d.mux
	}
	return http.HandlerFunc(http.NotFound)
}

// root lists the documents of OpenAPI v3: the kernel's, and each other server's for its
// own group version.
func (o *openapi) root(t *table, next http.Handler, w http.ResponseWriter, req *http.Request) {
	plain := req.Clone(req.Context())
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "Range", "Accept-Encoding"} {
		plain.Header.Del(name)
	}
	own := get(next, plain, maxDocument)
	var all handler3.OpenAPIV3Discovery
	if own.status != http.StatusOK || json.Unmarshal(own.body.Bytes(), &all) != nil || all.Paths == nil {
		own.send(w)
		return
	}
	for gv := range t.handlers {
		d := o.versioned(gv.Version + "." + gv.Group)
		if d == nil {
			continue
		}
		var theirs handler3.OpenAPIV3Discovery
		if json.Unmarshal(get(d.mux, plain, maxDocument).body.Bytes(), &theirs) != nil {
			continue
		}
		path := "apis/" + gv.Group + "/" + gv.Version
		if entry, ok := theirs.Paths[path]; ok {
			// Where it is read is not for the other server to say.
			where := url.URL{Path: "/openapi/v3/" + path}
			if u, err := url.Parse(entry.ServerRelativeURL); err == nil && u.Query().Get("hash") != "" {
				where.RawQuery = url.Values{"hash": {u.Query().Get("hash")}}.Encode()
			}
			all.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: where.String()}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&all); err != nil {
		return // the client has gone
	}
}
