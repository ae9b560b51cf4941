package apiservers

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Bounds of what is kept of one server. What passes them is asked of its process.
const (
	mostDocuments    = 32
	longestDocument  = 2 << 20
	allDocumentBytes = 8 << 20
)

// keptStatuses are answers that stay the same while a process does.
var keptStatuses = []int{http.StatusOK, http.StatusNotFound, http.StatusNotAcceptable}

// about reports whether a path is of discovery or of OpenAPI.
func about(path string) bool {
	if path == "/openapi/v2" || path == "/openapi/v3" || strings.HasPrefix(path, "/openapi/v3/apis/") {
		return true
	}
	rest, ok := strings.CutPrefix(path, "/apis")
	return ok && (rest == "" || rest[0] == '/') && strings.Count(rest, "/") <= 2
}

// record is what a server last answered to the kernel about itself, for the time in which
// it has no process. Safe for concurrent use.
type record struct {
	mu    sync.Mutex
	kept  map[string]kept
	bytes int
}

type kept struct {
	status int
	header http.Header
	body   []byte
}

// keep takes an answer down. It reads its body and puts it back.
func (r *record) keep(key string, res *http.Response) {
	if !slices.Contains(keptStatuses, res.StatusCode) {
		return
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, longestDocument+1))
	if err != nil || len(text) > longestDocument {
		again := io.MultiReader(bytes.NewReader(text), res.Body)
		if err != nil {
			again = io.MultiReader(bytes.NewReader(text), failing{err})
		}
		res.Body = struct {
			io.Reader
			io.Closer
		}{again, res.Body}
		r.forget(key)
		return
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(text), res.Body}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.kept[key]
	held := r.bytes - len(old.body) + len(text)
	if held > allDocumentBytes || !known && len(r.kept) >= mostDocuments {
		return
	}
	if r.kept == nil {
		r.kept = map[string]kept{}
	}
	r.kept[key], r.bytes = kept{res.StatusCode, res.Header.Clone(), text}, held
}

func (r *record) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= len(r.kept[key].body)
	delete(r.kept, key)
}

// answer is what was taken down; nil: nothing was.
func (r *record) answer(key string, req *http.Request) *http.Response {
	r.mu.Lock()
	k, ok := r.kept[key]
	r.mu.Unlock()
	if !ok {
		return nil
	}
	res := &http.Response{
		StatusCode: k.status, Status: http.StatusText(k.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: k.header.Clone(), Request: req, Body: http.NoBody,
	}
	if tag := k.header.Get("Etag"); tag != "" && req.Header.Get("If-None-Match") == tag {
		res.StatusCode, res.Status = http.StatusNotModified, http.StatusText(http.StatusNotModified)
		return res
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(k.body)), int64(len(k.body))
	return res
}

// failing is a reader that has an error alone.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
