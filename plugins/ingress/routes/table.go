package routes

import (
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
)

// Scheme is how a backend is spoken to.
type Scheme string

// The schemes. HTTP is HTTP/1.1, web sockets included; H2C is HTTP/2 without TLS, as gRPC
// has it; HTTPS is either of them over TLS.
const (
	HTTP  Scheme = "http"
	H2C   Scheme = "h2c"
	HTTPS Scheme = "https"
)

// SecretName names the Secret of a certificate.
type SecretName struct{ Namespace, Name string }

// Backend is one port of a Service. All rules that name it share one Backend.
type Backend struct {
	Namespace, Service string
	Scheme             Scheme
	// Endpoints are HOST:PORT, without doubles; none: nobody is ready.
	Endpoints []string

	next atomic.Uint32
}

// Pick returns at most n different endpoints, each time beginning with the next one.
func (b *Backend) Pick(n int) []string {
	all := len(b.Endpoints)
	n = min(n, all)
	if n == 0 {
		return nil
	}
	out := make([]string, 0, n)
	first := int(b.next.Add(1) % uint32(all))
	for i := range n {
		out = append(out, b.Endpoints[(first+i)%all])
	}
	return out
}

// shuffled begins at any endpoint: a new table must not lead everybody to the first.
func (b *Backend) shuffled() *Backend {
	b.next.Store(rand.Uint32())
	return b
}

// Table leads hosts and paths to backends.
type Table struct {
	hosts     map[string]*host // by name
	wildcards map[string]*host // by what follows the star and its dot
	other     *host            // of rules without a host
	fallback  *Backend         // for what no rule is about
	secrets   map[string]SecretName
	owners    map[string]string // host → namespace
	services  map[SecretName]bool
}

// host has the paths of one.
type host struct {
	exact    map[string]*Backend
	prefixes map[string]prefix // by the path without a slash at its end
	deepest  int               // elements of the longest prefix
	fallback *Backend
}

type prefix struct {
	written string
	to      *Backend
}

func newHost() *host {
	return &host{exact: map[string]*Backend{}, prefixes: map[string]prefix{}}
}

// Find returns the backend of a host (lower case, without a port) and a decoded path, or nil.
func (t *Table) Find(name, requested string) *Backend {
	requested = resolved(requested)
	// What is others' is not looked at for a host that somebody has.
	_, parent, _ := strings.Cut(name, ".")
	owner := t.owner(name)
	mine := func(of string) bool { return owner == "" || owner == of }
	h := t.hosts[name]
	if h == nil && mine(t.owners["*."+parent]) {
		h = t.wildcards[parent]
	}
	if h == nil && mine(t.owners[""]) {
		h = t.other
	}
	if h != nil {
		if b := h.find(requested); b != nil {
			return b
		}
		if h.fallback != nil {
			return h.fallback
		}
	}
	if t.fallback != nil && mine(t.fallback.Namespace) {
		return t.fallback
	}
	return nil
}

// owner is the namespace that has a host, by its name or by a wildcard; "": nobody.
func (t *Table) owner(name string) string {
	if name == "" {
		return ""
	}
	if owner, ok := t.owners[name]; ok {
		return owner
	}
	_, parent, ok := strings.Cut(name, ".")
	if !ok {
		return ""
	}
	return t.owners["*."+parent]
}

// resolved has no elements . and .., so that /public/../private is what it is.
func resolved(requested string) string {
	if !strings.Contains(requested, "/.") {
		return requested
	}
	clean := path.Clean("/" + requested)
	if clean != "/" && (strings.HasSuffix(requested, "/") || strings.HasSuffix(requested, "/.") || strings.HasSuffix(requested, "/..")) {
		clean += "/"
	}
	return clean
}

func (h *host) find(requested string) *Backend {
	if b := h.exact[requested]; b != nil {
		return b
	}
	// Prefixes are of whole elements. Those that are deeper than any rule are skipped, so
	// that a request of a thousand slashes costs no more than another.
	rest := strings.TrimSuffix(requested, "/")
	if cut := cutAfter(rest, h.deepest); cut < len(rest) {
		rest = rest[:cut]
	}
	for {
		if p, ok := h.prefixes[rest]; ok {
			return p.to
		}
		slash := strings.LastIndexByte(rest, '/')
		if slash < 0 {
			return nil
		}
		rest = rest[:slash]
	}
}

// cutAfter is the length of the first n elements of a path that begins with a slash.
func cutAfter(text string, n int) int {
	at := 0
	for ; n > 0 && at < len(text); n-- {
		slash := strings.IndexByte(text[at+1:], '/')
		if slash < 0 {
			return len(text)
		}
		at += 1 + slash
	}
	return at
}

// add leads a path to a backend. It reports false where the path leads somewhere already.
func (h *host) add(exact bool, written string, to *Backend) bool {
	if exact {
		if h.exact[written] != nil {
			return false
		}
		h.exact[written] = to
		return true
	}
	key := strings.TrimSuffix(written, "/")
	// /a and /a/ match the same; the longer one counts.
	if there, ok := h.prefixes[key]; ok && len(there.written) >= len(written) {
		return there.written != written && there.to == to
	}
	h.prefixes[key] = prefix{written, to}
	h.deepest = max(h.deepest, strings.Count(key, "/"))
	return true
}

// Secret returns which certificate a host is served with.
func (t *Table) Secret(name string) (SecretName, bool) {
	if s, ok := t.secrets[name]; ok {
		return s, true
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if s, ok := t.secrets["*."+parent]; ok && t.owner(name) == s.Namespace {
			return s, true
		}
	}
	return SecretName{}, false
}

// Owners are the namespaces by the hosts that they have. The next table is made with them.
func (t *Table) Owners() map[string]string { return t.owners }

// Uses reports whether the table changes with a Service or its endpoints.
func (t *Table) Uses(namespace, service string) bool {
	return t.services[SecretName{namespace, service}]
}
