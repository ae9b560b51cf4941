package aggregation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// maxDocument is how large a discovery or OpenAPI document of another server may be.
// Kubernetes' own OpenAPI v2 has 5 MiB.
const maxDocument = 16 << 20

var errTooLarge = errors.New("the document is too large")

// document is an answer that is held in memory.
type document struct {
	header http.Header
	status int
	body   bytes.Buffer
	max    int
	large  bool
}

func newDocument(maxBytes int) *document {
	return &document{header: http.Header{}, max: maxBytes}
}

// Header implements http.ResponseWriter.
func (d *document) Header() http.Header { return d.header }

// WriteHeader implements http.ResponseWriter.
func (d *document) WriteHeader(status int) {
	if d.status == 0 && status >= http.StatusOK {
		d.status = status
	}
}

// Write implements http.ResponseWriter. An error of it ends the proxy's reading.
func (d *document) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	if d.body.Len()+len(p) > d.max {
		d.large = true
		return 0, errTooLarge
	}
	return d.body.Write(p)
}

// get serves a request into a document of at most so many bytes. What the handler
// panics with, as a proxy does when the other server goes away in the middle, is an
// answer like any that cannot be used.
func get(h http.Handler, req *http.Request, maxBytes int) (d *document) {
	d = newDocument(maxBytes)
	defer func() {
		if p := recover(); p != nil || d.large {
			reason := fmt.Sprintf("the answer ended early: %v", p)
			if d.large {
				reason = fmt.Sprintf("%v: at most %d bytes are read", errTooLarge, d.max)
			}
			d = newDocument(maxBytes)
			http.Error(d, reason, http.StatusBadGateway)
		}
		d.WriteHeader(http.StatusOK)
	}()
	h.ServeHTTP(d, req)
	return d
}

// bounded serves documents of another server to those that hold them in memory.
func bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		get(h, req, maxDocument).send(w)
	})
}

func (d *document) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), d.header)
	w.WriteHeader(d.status)
	_, _ = io.Copy(w, &d.body) // whoever asked has gone, where it fails
}
