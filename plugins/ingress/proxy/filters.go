package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// change makes of a request what its rule wants of it.
func (c *chosen) change(out *http.Request) {
	a := c.rule.Action
	routes.Apply(out.Header, a.Request)
	routes.Apply(out.Header, c.to.Request)
	if a.Rewrite == nil {
		return
	}
	if a.Rewrite.Host != "" {
		out.Host = a.Rewrite.Host
	}
	if a.Rewrite.Path != nil {
		changePath(out.URL, c.rule, a.Rewrite.Path)
	}
}

// answered changes the headers of an answer as the rule of its request wants it. An answer
// that no server may give is an error.
func answered(r *http.Response) error {
	if r.StatusCode < http.StatusContinue {
		return fmt.Errorf("the answer has the status %d", r.StatusCode)
	}
	if c, ok := r.Request.Context().Value(chosenOf{}).(*chosen); ok {
		if r.StatusCode == http.StatusSwitchingProtocols && c.timer != nil {
			c.timer.Stop()
		}
		routes.Apply(r.Header, c.rule.Action.Response)
		routes.Apply(r.Header, c.to.Response)
	}
	return nil
}

// changePath gives a URL another path. What follows a prefix stays as it was written.
func changePath(u *url.URL, rule *routes.Rule, change *routes.PathChange) {
	if change.Whole {
		u.Path, u.RawPath = change.Value, ""
		return
	}
	prefix := strings.TrimSuffix(rule.Path, "/")
	written := u.EscapedPath()
	rest, ok := strings.CutPrefix(written, prefix)
	plain := routes.Resolved(u.Path)
	if !ok || rest != "" && rest[0] != '/' || plain != u.Path {
		// As it was matched: an escaped .. or slash must not lead out of the new prefix.
		rest, _ = strings.CutPrefix(plain, prefix)
		rest = (&url.URL{Path: rest}).EscapedPath()
	}
	rest = strings.TrimPrefix(rest, "/")
	path := strings.TrimSuffix((&url.URL{Path: change.Value}).EscapedPath(), "/")
	if rest != "" || path == "" {
		path += "/" + rest
	} else if strings.HasSuffix(written, "/") && written != prefix {
		path += "/"
	}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		decoded = path
	}
	u.Path, u.RawPath = decoded, path
}

// redirect answers a request by another place.
func redirect(w http.ResponseWriter, r *http.Request, rule *routes.Rule, host string, port int) (status int) {
	to := rule.Action.Redirect
	where := url.URL{Scheme: "http", Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	if r.TLS != nil {
		where.Scheme = "https"
	}
	if to.Scheme != "" {
		if where.Scheme = to.Scheme; to.Port == 0 {
			port = map[string]int{"http": 80, "https": 443}[to.Scheme]
		}
	}
	if to.Port != 0 {
		port = to.Port
	}
	if to.Host != "" {
		host = to.Host
	}
	if to.Path != nil {
		changePath(&where, rule, to.Path)
	}
	if host == "" {
		return http.StatusBadRequest
	}
	if where.Host = host; strings.Contains(host, ":") {
		where.Host = "[" + host + "]"
	}
	if port != 0 && !(where.Scheme == "http" && port == 80) && !(where.Scheme == "https" && port == 443) {
		where.Host = net.JoinHostPort(host, strconv.Itoa(port))
	}
	// In one piece: net/http would take a path of two slashes for a host.
	w.Header().Set("Location", where.String())
	routes.Apply(w.Header(), rule.Action.Response)
	w.WriteHeader(to.Status)
	return 0
}
