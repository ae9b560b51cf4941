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
	to, namespace, status := p.route(a, r)
	if status != 0 {
		refuse(a, status)
		requests.WithLabelValues(namespace, class(status)).Inc()
		return
	}
	if to == nil {
		return // redirected
	}
	client, trusted := clientOf(r.RemoteAddr, p.settings.Trusts)
	if !p.budget.enter(namespace, client, trusted) {
		a.Header().Set("Retry-After", "1")
		refuse(a, http.StatusServiceUnavailable)
		requests.WithLabelValues(namespace, class(http.StatusServiceUnavailable)).Inc()
		return
	}
	defer func() {
		p.budget.leave(namespace, client)
		requests.WithLabelValues(namespace, class(a.status)).Inc()
	}()
	r = r.WithContext(context.WithValue(r.Context(), backendOf{}, to))
	if sent != nil && !p.bound(w, r, sent, to) {
		refuse(a, http.StatusRequestEntityTooLarge)
		return
	}
	p.reverse.ServeHTTP(a, r)
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

// route finds the backend of a request, or the status that it is answered with. It is
// neither where the request was redirected.
func (p *Proxy) route(w http.ResponseWriter, r *http.Request) (to *routes.Backend, namespace string, status int) {
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
	host := hostOf(r.Host)
	secret, secured := table.Secret(host)
	if r.TLS != nil && secured {
		// A connection that was made for another host's certificate is not this host's.
		if of, _ := table.Secret(hostOf(r.TLS.ServerName)); of != secret {
			return nil, "", http.StatusMisdirectedRequest
		}
	}
	to = table.Find(host, r.URL.Path)
	if to == nil {
		return nil, "", http.StatusNotFound
	}
	if r.TLS == nil && secured && p.settings.RedirectToHTTPS && p.httpsPort != 0 && !p.cameByHTTPS(r) {
		where := *r.URL
		where.Scheme, where.Host = "https", host
		if p.httpsPort != 443 {
			where.Host = net.JoinHostPort(host, strconv.Itoa(p.httpsPort))
		}
		http.Redirect(w, r, where.String(), http.StatusPermanentRedirect)
		return nil, "", 0
	}
	return to, to.Namespace, 0
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
