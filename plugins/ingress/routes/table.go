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

// Backend is one port of a Service. All rules of a namespace that name it share one Backend.
type Backend struct {
	Namespace, Service string
	// Payer is the namespace of the Ingresses or routes, whose budgets count.
	Payer  string
	Scheme Scheme
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
	fallback  *Rule            // for what no rule is about
	secrets   map[string]SecretName
	owners    map[string]string // host → namespace
	deep      map[string]bool   // wildcards of Gateways, which stand for any number of labels
	ports     map[int]*port     // listeners of Gateways
	services  map[SecretName]bool
}

// Find returns the backend that an Ingress gives a host (lower case, without a port) and a
// decoded path, or nil.
func (t *Table) Find(name, requested string) *Backend {
	if r := t.ofIngress(name, &Request{Path: Resolved(requested)}); r != nil {
		return r.Action.To[0].Backend
	}
	return nil
}

// ofIngress returns the rule of an Ingress for a request whose path is resolved.
func (t *Table) ofIngress(name string, q *Request) *Rule {
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
		if r := h.find(q); r != nil {
			return r
		}
		if h.fallback != nil {
			return h.fallback
		}
	}
	if t.fallback != nil && mine(t.fallback.Action.Namespace) {
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
	if owner, ok := t.owners["*."+parent]; ok {
		return owner
	}
	return t.deepOwner(parent)
}

// deepOwner is the namespace of the longest wildcard of a Gateway that a name is below.
func (t *Table) deepOwner(name string) string {
	if len(t.deep) == 0 || len(name) > maxName {
		return ""
	}
	for parent, ok := name, true; ok; _, parent, ok = strings.Cut(parent, ".") {
		if t.deep["*."+parent] {
			return t.owners["*."+parent]
		}
	}
	return ""
}

// Resolved has no elements . and .., so that /public/../private is what it is.
func Resolved(requested string) string {
	if !strings.Contains(requested, "/.") {
		return requested
	}
	clean := path.Clean("/" + requested)
	if clean != "/" && (strings.HasSuffix(requested, "/") || strings.HasSuffix(requested, "/.") || strings.HasSuffix(requested, "/..")) {
		clean += "/"
	}
	return clean
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
