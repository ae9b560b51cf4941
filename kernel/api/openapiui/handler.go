package openapiui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// Path is where the page is served.
const Path = "/openapi/ui/"

//go:embed viewer/*.gz viewer/*.txt viewer/LICENSE viewer/NOTICE page
var files embed.FS

// served are the files by the last part of their path; those that end so are compressed.
var served = map[string]string{
	"":                                 "page/index.html",
	"page.js":                          "page/page.js",
	"page.css":                         "page/page.css",
	"swagger-ui-bundle.js":             "viewer/swagger-ui-bundle.js.gz",
	"swagger-ui.css":                   "viewer/swagger-ui.css.gz",
	"swagger-ui-bundle.js.LICENSE.txt": "viewer/swagger-ui-bundle.js.LICENSE.txt",
	"LICENSE":                          "viewer/LICENSE",
	"NOTICE":                           "viewer/NOTICE",
}

const compressed = ".gz"

// policy lets nothing run or load but what is served here. Images are those of the style
// sheet alone: one that a description names would be asked for with the reader's rights.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-same-origin allow-popups"

// Handler serves the page.
type Handler struct {
	mu    sync.Mutex
	etags map[string]string // of files that were asked for
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
		return
	}
	rest, below := strings.CutPrefix(req.URL.Path, Path)
	if !below { // relative, for proxies that put a path before it
		w.Header().Set("Location", path.Base(Path)+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	file, ok := served[rest]
	if !ok {
		http.NotFound(w, req)
		return
	}
	data, err := files.ReadFile(file)
	if err != nil {
		http.Error(w, fmt.Sprintf("the page's file %s is not in this build: %v", rest, err), http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-cache, private")
	head.Set("Content-Type", contentType(strings.TrimSuffix(file, compressed)))
	head.Set("Vary", "Accept-Encoding")
	tag := h.etag(file, data)
	packed := strings.HasSuffix(file, compressed)
	if packed && accepts(req) {
		head.Set("Content-Encoding", "gzip")
	} else if packed {
		if data, err = unpack(data); err != nil {
			http.Error(w, fmt.Sprintf("the page's file %s is damaged in this build: %v", rest, err), http.StatusInternalServerError)
			return
		}
		tag += "-identity"
	}
	head.Set("Etag", `"`+tag+`"`)
	if match := req.Header.Get("If-None-Match"); match == `"`+tag+`"` {
		head.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	head.Set("Content-Length", fmt.Sprint(len(data)))
	if req.Method == http.MethodGet {
		_, _ = io.Copy(w, bytes.NewReader(data)) // who asked is gone
	}
}

func (h *Handler) etag(file string, data []byte) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.etags == nil {
		h.etags = map[string]string{}
	}
	if h.etags[file] == "" {
		sum := sha256.Sum256(data)
		h.etags[file] = hex.EncodeToString(sum[:16])
	}
	return h.etags[file]
}

func contentType(file string) string {
	if t := mime.TypeByExtension(path.Ext(file)); t != "" && path.Ext(file) != ".js" {
		return t
	}
	if path.Ext(file) == ".js" {
		return "text/javascript; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

// accepts tells whether a client takes compressed answers, as all browsers do.
func accepts(req *http.Request) bool {
	for _, line := range req.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			if name, q, _ := strings.Cut(strings.TrimSpace(part), ";"); strings.EqualFold(name, "gzip") && strings.TrimSpace(q) != "q=0" {
				return true
			}
		}
	}
	return false
}

func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
