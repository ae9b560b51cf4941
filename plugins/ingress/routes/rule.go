package routes

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxName is how long the name of a host may be.
	maxName = 253
	// maxPatternInput is how long a text may be that patterns are tried at, in bytes.
	maxPatternInput = 1 << 10
	// maxPatternWork is how many bytes of text all patterns of one request are tried at.
	// Each trial counts as leastPatternWork at least.
	maxPatternWork   = 32 << 10
	leastPatternWork = 64
)

// Request is what rules look at.
type Request struct {
	// Port that it came to.
	Port int
	// Host is in lower case, without a port.
	Host string
	// Path is decoded.
	Path   string
	Method string
	Header http.Header
	// RawQuery is read when a rule asks for it.
	RawQuery string

	query url.Values
	work  int  // bytes that patterns were tried at
	spent bool // a pattern was not tried, since there was no work left for it
}

// matches tries a pattern at a text that is not too long for it, within the work of the
// request.
func (q *Request) matches(p *regexp.Regexp, text string) bool {
	if len(text) > maxPatternInput {
		return false
	}
	if q.work += max(len(text), leastPatternWork); q.work > maxPatternWork {
		q.spent = true
		return false
	}
	return p.MatchString(text)
}

// Condition is one of a header or a query parameter: a value, or a pattern in its place.
type Condition struct {
	Name, Value string
	Pattern     *regexp.Regexp
}

func (c *Condition) holds(q *Request, value string) bool {
	if c.Pattern != nil {
		return q.matches(c.Pattern, value)
	}
	return value == c.Value
}

// Rule leads the requests of one path to an action, where its conditions hold. Ingresses
// and routes of Gateways are both made into rules.
type Rule struct {
	// Exact says that Path is the whole path; without it Path is a prefix of whole elements.
	// Pattern stands in place of both.
	Exact   bool
	Path    string
	Pattern *regexp.Regexp
	// Suffix is what the path ends with, below a prefix.
	Suffix string
	// Method is empty for all.
	Method           string
	Headers, Queries []Condition
	// Order decides between rules that are equal in all else: a smaller one goes first.
	Order  int
	Action *Action
}

// Action is what happens with a request.
type Action struct {
	// Namespace of the Ingress or the route.
	Namespace string
	// Redirect answers the request; it goes to no backend then.
	Redirect *Redirect
	// To are backends by their weight. With none, or where the one that is drawn is nil, the
	// answer is 500.
	To      []Weighted
	Rewrite *Rewrite
	// Request and Response change headers.
	Request, Response []HeaderChange
	// Timeout of a request until its answer has ended; 0: none.
	Timeout time.Duration
}

// Weighted is a backend with its share, and header changes of its own.
type Weighted struct {
	Backend           *Backend
	Weight            int32
	Request, Response []HeaderChange
}

// HeaderChange removes a header, or sets it, or adds a value to it.
type HeaderChange struct {
	Name, Value string
	Remove, Add bool
}

// Apply changes headers.
func Apply(to http.Header, all []HeaderChange) {
	for _, c := range all {
		switch {
		case c.Remove:
			to.Del(c.Name)
		case c.Add:
			to.Add(c.Name, c.Value)
		default:
			to.Set(c.Name, c.Value)
		}
	}
}

// PathChange is another path: whole, or in place of the prefix that the rule has.
type PathChange struct {
	Whole bool
	Value string
}

// Redirect is an answer that names another place. What is empty is the request's.
type Redirect struct {
	Scheme, Host string
	Port         int
	Path         *PathChange
	Status       int
}

// Rewrite is what a backend sees in place of the client's host and path.
type Rewrite struct {
	Host string
	Path *PathChange
}

// Draw returns one of the backends by their weights, or nil where there is none.
func (a *Action) Draw() *Weighted {
	if len(a.To) == 1 && a.To[0].Weight > 0 {
		return &a.To[0]
	}
	var all int64
	for i := range a.To {
		all += int64(a.To[i].Weight)
	}
	if all == 0 {
		return nil
	}
	at := rand.Int64N(all)
	for i := range a.To {
		if at -= int64(a.To[i].Weight); at < 0 {
			return &a.To[i]
		}
	}
	return nil
}

// leading is a rule for all that goes to one backend.
func leading(to *Backend) *Rule {
	return &Rule{Action: &Action{Namespace: to.Namespace, To: []Weighted{{Backend: to, Weight: 1}}}}
}

// holds reports whether the conditions of a rule are met; its path is not looked at.
func (r *Rule) holds(q *Request) bool {
	if r.Method != "" && r.Method != q.Method || !strings.HasSuffix(q.Path, r.Suffix) {
		return false
	}
	for i := range r.Headers {
		c := &r.Headers[i]
		values := q.Header.Values(c.Name)
		if len(values) == 0 || !c.holds(q, strings.Join(values, ",")) {
			return false
		}
	}
	if len(r.Queries) == 0 {
		return true
	}
	if q.query == nil {
		q.query, _ = url.ParseQuery(q.RawQuery) // what of it is sound counts
	}
	for i := range r.Queries {
		c := &r.Queries[i]
		if values := q.query[c.Name]; len(values) == 0 || !c.holds(q, values[0]) {
			return false
		}
	}
	return true
}

// before orders the rules of one path.
func before(a, b *Rule) int {
	with := func(r *Rule) int {
		if r.Method != "" {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(len(b.Suffix), len(a.Suffix)), cmp.Compare(with(b), with(a)),
		cmp.Compare(len(b.Headers), len(a.Headers)), cmp.Compare(len(b.Queries), len(a.Queries)),
		cmp.Compare(a.Order, b.Order))
}

// host has the rules of one.
type host struct {
	exact    map[string][]*Rule
	patterns []*Rule
	prefixes map[string][]*Rule // by the path without a slash at its end
	deepest  int                // elements of the longest prefix
	fallback *Rule
}

func newHost() *host {
	return &host{exact: map[string][]*Rule{}, prefixes: map[string][]*Rule{}}
}

func first(all []*Rule, q *Request) *Rule {
	for _, r := range all {
		if r.holds(q) {
			return r
		}
	}
	return nil
}

// find returns the rule of a request whose path is resolved: whole paths go before
// patterns, and those before prefixes.
func (h *host) find(q *Request) *Rule {
	if r := first(h.exact[q.Path], q); r != nil {
		return r
	}
	for _, r := range h.patterns {
		if r.holds(q) && q.matches(r.Pattern, q.Path) {
			return r
		}
	}
	// Prefixes are of whole elements. Those that are deeper than any rule are skipped, so
	// that a request of a thousand slashes costs no more than another.
	rest := strings.TrimSuffix(q.Path, "/")
	if cut := cutAfter(rest, h.deepest); cut < len(rest) {
		rest = rest[:cut]
	}
	for {
		if r := first(h.prefixes[rest], q); r != nil {
			return r
		}
		slash := strings.LastIndexByte(rest, '/')
		if slash < 0 {
			return nil
		}
		rest = rest[:slash]
	}
}

// add leads a path of an Ingress to a backend. It reports false where the path leads
// somewhere already.
func (h *host) add(exact bool, written string, to *Backend) bool {
	r := leading(to)
	r.Exact, r.Path = exact, written
	if exact {
		if h.exact[written] != nil {
			return false
		}
		h.exact[written] = []*Rule{r}
		return true
	}
	key := strings.TrimSuffix(written, "/")
	// /a and /a/ match the same; the longer one counts.
	if there := h.prefixes[key]; len(there) > 0 && len(there[0].Path) >= len(written) {
		return there[0].Path != written && there[0].Action.To[0].Backend == to
	}
	h.prefixes[key] = nil
	h.take(r)
	return true
}

// take adds a rule beside those that there are.
func (h *host) take(r *Rule) {
	switch {
	case r.Pattern != nil:
		h.patterns = append(h.patterns, r)
	case r.Exact:
		h.exact[r.Path] = append(h.exact[r.Path], r)
	default:
		key := strings.TrimSuffix(r.Path, "/")
		h.prefixes[key] = append(h.prefixes[key], r)
		h.deepest = max(h.deepest, strings.Count(key, "/"))
	}
}

// sort brings the rules of each path into their order.
func (h *host) sort() {
	for _, all := range h.exact {
		slices.SortStableFunc(all, before)
	}
	for _, all := range h.prefixes {
		slices.SortStableFunc(all, before)
	}
	slices.SortStableFunc(h.patterns, func(a, b *Rule) int {
		return cmp.Or(cmp.Compare(len(b.Pattern.String()), len(a.Pattern.String())), before(a, b))
	})
}
