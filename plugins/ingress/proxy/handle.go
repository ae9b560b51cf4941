package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// errTrickles is the error of a body that does not come.
var errTrickles = errors.New("the client does not send its request")

// handle answers one request.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	of := http.NewResponseController(w)
	a := &answer{ResponseWriter: w, of: of, patience: p.settings.ClientTimeout.Duration}
	defer a.end()
	var sent *body
	if r.Body != nil && r.Body != http.NoBody {
		sent = &body{ReadCloser: r.Body, of: of, patience: p.settings.ClientTimeout.Duration, http1: r.ProtoMajor == 1}
		defer sent.Close()
		if sent.http1 {
			a.begins = sent.unread
		}
	}
	// Before the table is looked at: what that costs is the client's to bear, too.
	client, trusted := clientOf(r.RemoteAddr, p.settings.Trusts)
	if !p.budget.admit(client, trusted) {
		busy(a, "")
		return
	}
	defer p.budget.release(client)
	c, namespace, status := p.route(a, r)
	if status != 0 {
		refuse(a, status)
		requests.WithLabelValues(namespace, class(status)).Inc()
		return
	}
	if c == nil { // redirected
		if namespace != "" {
			requests.WithLabelValues(namespace, class(a.status)).Inc()
		}
		return
	}
	to := c.to.Backend
	if !p.budget.lead(namespace) {
		busy(a, namespace)
		return
	}
	defer func() {
		p.budget.arrive(namespace)
		requests.WithLabelValues(namespace, class(a.status)).Inc()
	}()
	ctx := context.WithValue(r.Context(), chosenOf{}, c)
	if d := c.rule.Action.Timeout; d > 0 {
		bound, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		c.timer = time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
		defer c.timer.Stop()
		ctx = bound
	}
	r = r.WithContext(ctx)
	if sent != nil && !p.bound(w, r, sent, to) {
		refuse(a, http.StatusRequestEntityTooLarge)
		return
	}
	p.reverse.ServeHTTP(a, r)
}

// busy answers a request for which there is no room now.
func busy(w http.ResponseWriter, namespace string) {
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable)
	requests.WithLabelValues(namespace, class(http.StatusServiceUnavailable)).Inc()
}

// bound gives a request its body, with the bounds of its backend. It reports false where
// the body is too large.
func (p *Proxy) bound(w http.ResponseWriter, r *http.Request, sent *body, to *routes.Backend) bool {
	r.Body = &said{sent}
	if isGRPC(r) && to.Scheme != routes.HTTP {
		sent.patience = 0 // its calls may be silent as long as they like; pings find who is gone
		return true
	}
	most := p.settings.MaxBodyBytes
	if most == 0 {
		return true
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	return r.ContentLength <= most
}

// said gives a read that came to its deadline a name.
type said struct{ *body }

// Read implements io.Reader.
func (s *said) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errTrickles, err)
	}
	return n, err
}

// chosen is where a request goes, and by which rule.
type chosen struct {
	rule *routes.Rule
	to   *routes.Weighted
	// timer ends the request; nil: it has no such bound. An upgraded one has none any more.
	timer *time.Timer
}

// chosenOf is the key of a request's chosen in its context.
type chosenOf struct{}

// backendOf is the backend of a request that was routed, or nil.
func backendOf(ctx context.Context) *routes.Backend {
	if c, ok := ctx.Value(chosenOf{}).(*chosen); ok {
		return c.to.Backend
	}
	return nil
}

// route finds the backend of a request, or the status that it is answered with. It is
// neither where the request was redirected.
func (p *Proxy) route(w http.ResponseWriter, r *http.Request) (c *chosen, namespace string, status int) {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		return nil, "", http.StatusMethodNotAllowed
	}
	if !strings.HasPrefix(r.URL.Path, "/") {
		return nil, "", http.StatusBadRequest
	}
	table := p.table.Load()
	if table == nil {
		return nil, "", http.StatusServiceUnavailable
	}
	host, port := hostOf(r.Host), portOf(r.Context())
	if r.TLS != nil {
		// A connection that was made for another host's certificate is not this host's.
		if _, key := table.Certificates(port, host); key != nil {
			if _, of := table.Certificates(port, hostOf(r.TLS.ServerName)); of != key {
				return nil, "", http.StatusMisdirectedRequest
			}
		}
	}
	rule := table.Route(&routes.Request{Port: port, Host: host, Path: r.URL.Path, Method: r.Method, Header: r.Header, RawQuery: r.URL.RawQuery})
	if rule == nil {
		return nil, "", http.StatusNotFound
	}
	namespace = rule.Action.Namespace
	if rule.Action.Redirect != nil {
		return nil, namespace, redirect(w, r, rule, host, port)
	}
	if p.toHTTPS(w, r, table, host) {
		return nil, "", 0
	}
	to := rule.Action.Draw()
	if to == nil || to.Backend == nil {
		return nil, namespace, http.StatusInternalServerError
	}
	return &chosen{rule: rule, to: to}, to.Backend.Payer, 0
}

// toHTTPS redirects a request of HTTP to a host of an Ingress that has a certificate, where
// the settings want that.
func (p *Proxy) toHTTPS(w http.ResponseWriter, r *http.Request, table *routes.Table, host string) bool {
	if r.TLS != nil || !p.settings.RedirectToHTTPS || p.httpsPort == 0 || p.cameByHTTPS(r) {
		return false
	}
	if _, secured := table.Secret(host); !secured {
		return false
	}
	where := *r.URL
	where.Scheme, where.Host = "https", host
	if p.httpsPort != 443 {
		where.Host = net.JoinHostPort(host, strconv.Itoa(p.httpsPort))
	}
	http.Redirect(w, r, where.String(), http.StatusPermanentRedirect)
	return true
}

// portOf is the port that a request came to; 0: it is not known.
func portOf(ctx context.Context) int {
	if a, ok := ctx.Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// cameByHTTPS reports whether a trusted proxy in front says so.
func (p *Proxy) cameByHTTPS(r *http.Request) bool {
	_, trusted := clientOf(r.RemoteAddr, p.settings.Trusts)
	return trusted && r.Header.Get("X-Forwarded-Proto") == "https"
}

// hostOf is the name of a host in lower case, without a port and a dot at its end.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isGRPC(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return r.ProtoMajor == 2 && (kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+") || strings.HasPrefix(kind, "application/grpc;"))
}

// refuse answers with a status and its name: clients learn nothing of what is inside.
func refuse(w http.ResponseWriter, status int) {
	http.Error(w, strconv.Itoa(status)+" "+http.StatusText(status), status)
}

// failed answers a request that could not be forwarded.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(context.Cause(r.Context()), context.DeadlineExceeded) {
		refuse(w, http.StatusGatewayTimeout)
		return
	}
	if r.Context().Err() != nil && !errors.Is(err, errTrickles) {
		// The client is gone, or the plugin ends.
		refuse(w, http.StatusBadGateway)
		return
	}
	status := statusOf(err)
	p.log.Debug("request is not forwarded", "host", r.Host, "status", status, "error", err)
	refuse(w, status)
}

// class is what is counted of a status: a backend may answer any number.
func class(status int) string {
	if status < 100 || status > 599 {
		return "other"
	}
	return strconv.Itoa(status/100) + "xx"
}
