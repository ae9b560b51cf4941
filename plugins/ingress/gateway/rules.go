package gateway

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// maxPatterns of one namespace. Each counts once for each host at each listener.
const maxPatterns = 32

// unsupported is what of a route is not served.
type unsupported struct{ what string }

// Error implements error.
func (u *unsupported) Error() string { return u.what }

func unsupportedf(format string, args ...any) error {
	return &unsupported{fmt.Sprintf(format, args...)}
}

// pattern compiles one of a route, which has to match the whole of a text.
func (p *Prepared) pattern(r *route, text string) (*regexp.Regexp, error) {
	if p.patterns[r.namespace] += r.places(); p.patterns[r.namespace] > maxPatterns {
		return nil, unsupportedf("the routes of the namespace have more than %d regular expressions, each counted for each host at each listener", maxPatterns)
	}
	return p.settings.Patterns.compile(text)
}

// ruleOf makes a rule of a match. Its action is not set.
func (p *Prepared) ruleOf(r *route, m *match) (*routes.Rule, error) {
	out := &routes.Rule{Path: "/", Suffix: m.suffix}
	if m.Method != nil {
		out.Method = string(*m.Method)
	}
	if m.Path != nil {
		value := ptr.Deref(m.Path.Value, "/")
		switch kind := ptr.Deref(m.Path.Type, gatewayv1.PathMatchPathPrefix); kind {
		case gatewayv1.PathMatchExact:
			out.Exact, out.Path = true, value
		case gatewayv1.PathMatchPathPrefix:
			out.Path = value
		case gatewayv1.PathMatchRegularExpression:
			var err error
			if out.Pattern, err = p.pattern(r, value); err != nil {
				return nil, err
			}
		default:
			return nil, unsupportedf("path type %q", kind)
		}
	}
	condition := func(name, value string, pattern bool) (routes.Condition, error) {
		c := routes.Condition{Name: name, Value: value}
		if !pattern {
			return c, nil
		}
		var err error
		c.Pattern, err = p.pattern(r, value)
		return c, err
	}
	seen := map[string]bool{}
	for _, h := range m.Headers {
		name := http.CanonicalHeaderKey(string(h.Name))
		if seen[name] { // the first of a name counts
			continue
		}
		seen[name] = true
		c, err := condition(name, h.Value, ptr.Deref(h.Type, gatewayv1.HeaderMatchExact) == gatewayv1.HeaderMatchRegularExpression)
		if err != nil {
			return nil, err
		}
		out.Headers = append(out.Headers, c)
	}
	clear(seen)
	for _, q := range m.QueryParams {
		if seen[string(q.Name)] {
			continue
		}
		seen[string(q.Name)] = true
		c, err := condition(string(q.Name), q.Value, ptr.Deref(q.Type, gatewayv1.QueryParamMatchExact) == gatewayv1.QueryParamMatchRegularExpression)
		if err != nil {
			return nil, err
		}
		out.Queries = append(out.Queries, c)
	}
	return out, nil
}

// framing are headers by which servers know where a message ends, or whom it is for. To
// change them could make two requests of one.
var framing = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// speaksForClient are headers by which backends know clients, of other namespaces too. The
// proxy alone writes them. Many backends read an underscore as a hyphen.
func speaksForClient(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-")
}

func changesOf(f *gatewayv1.HTTPHeaderFilter) ([]routes.HeaderChange, error) {
	var out []routes.HeaderChange
	if f == nil {
		return nil, unsupportedf("a header modifier says nothing")
	}
	take := func(c routes.HeaderChange) error {
		c.Name = http.CanonicalHeaderKey(c.Name)
		if slices.Contains(framing, c.Name) || speaksForClient(c.Name) {
			return unsupportedf("a header modifier of %s", c.Name)
		}
		out = append(out, c)
		return nil
	}
	for _, h := range f.Set {
		if err := take(routes.HeaderChange{Name: string(h.Name), Value: h.Value}); err != nil {
			return nil, err
		}
	}
	for _, h := range f.Add {
		if err := take(routes.HeaderChange{Name: string(h.Name), Value: h.Value, Add: true}); err != nil {
			return nil, err
		}
	}
	for _, name := range f.Remove {
		if err := take(routes.HeaderChange{Name: name, Remove: true}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func pathOf(m *gatewayv1.HTTPPathModifier, matches []match) (*routes.PathChange, error) {
	if m == nil {
		return nil, nil
	}
	if m.Type == gatewayv1.FullPathHTTPPathModifier {
		return &routes.PathChange{Whole: true, Value: "/" + strings.TrimPrefix(ptr.Deref(m.ReplaceFullPath, ""), "/")}, nil
	}
	if m.Type != gatewayv1.PrefixMatchHTTPPathModifier {
		return nil, unsupportedf("path modifier %q", m.Type)
	}
	for _, one := range matches {
		if one.Path != nil && ptr.Deref(one.Path.Type, gatewayv1.PathMatchPathPrefix) != gatewayv1.PathMatchPathPrefix {
			return nil, unsupportedf("ReplacePrefixMatch with a match that is no prefix")
		}
	}
	return &routes.PathChange{Value: "/" + strings.TrimPrefix(ptr.Deref(m.ReplacePrefixMatch, ""), "/")}, nil
}

// filter puts one into an action.
func filter(a *routes.Action, f *gatewayv1.HTTPRouteFilter, matches []match) (err error) {
	switch f.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		a.Request, err = changesOf(f.RequestHeaderModifier)
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		a.Response, err = changesOf(f.ResponseHeaderModifier)
	case gatewayv1.HTTPRouteFilterURLRewrite:
		if f.URLRewrite == nil {
			return unsupportedf("filter URLRewrite without urlRewrite")
		}
		a.Rewrite = &routes.Rewrite{Host: string(ptr.Deref(f.URLRewrite.Hostname, ""))}
		a.Rewrite.Path, err = pathOf(f.URLRewrite.Path, matches)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		from := f.RequestRedirect
		if from == nil {
			return unsupportedf("filter RequestRedirect without requestRedirect")
		}
		a.Redirect = &routes.Redirect{
			Scheme: ptr.Deref(from.Scheme, ""), Host: string(ptr.Deref(from.Hostname, "")), Port: int(ptr.Deref(from.Port, 0)),
			Status: ptr.Deref(from.StatusCode, http.StatusFound),
		}
		if !slices.Contains([]int{301, 302, 303, 307, 308}, a.Redirect.Status) {
			return unsupportedf("a redirect of status %d", a.Redirect.Status)
		}
		a.Redirect.Path, err = pathOf(from.Path, matches)
	default:
		return unsupportedf("filter %s", f.Type)
	}
	return err
}

// timeoutOf is the shorter of both: a request is sent again only where it reached no backend.
func timeoutOf(t *gatewayv1.HTTPRouteTimeouts) (time.Duration, error) {
	if t == nil {
		return 0, nil
	}
	var out time.Duration
	for _, d := range []*gatewayv1.Duration{t.Request, t.BackendRequest} {
		if d == nil {
			continue
		}
		n, err := time.ParseDuration(string(*d))
		if err != nil || n < 0 {
			return 0, unsupportedf("timeout %q", *d)
		}
		if n > 0 && (out == 0 || n < out) {
			out = n
		}
	}
	return out, nil
}
