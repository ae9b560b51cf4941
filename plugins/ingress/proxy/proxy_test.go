package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/ingress/routes"
	"pintle.dev/pintle/plugins/ingress/settings"
)

const patience = 2 * time.Minute

// begun is a proxy that runs until the test ends.
type begun struct {
	*Proxy
	http, https string
	stop        func() error // asks it to end and waits
	services    map[string]service
}

// service has endpoints on loopback, which no table of the API leads to: tests put them in.
type service struct {
	scheme    string
	endpoints []string
}

// begin starts a proxy. Each host NAME.test leads to the service NAME, of the namespace NAME.
func begin(t *testing.T, config string, services map[string]service) *begun {
	t.Helper()
	s, err := settings.Read([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	s.HTTPAddresses, s.HTTPSAddresses = []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}
	certificates := map[string]*tls.Certificate{"own": certificate(t, "own")}
	for name := range services {
		certificates[name] = certificate(t, name+".test")
	}
	p := New(s, func(n routes.SecretName) *tls.Certificate { return certificates[n.Namespace] }, certificates["own"], slog.New(slog.DiscardHandler))
	p.drains = patience
	if err := p.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	b := &begun{Proxy: p, http: p.Addresses()[0].String(), https: p.Addresses()[1].String()}
	b.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return fmt.Errorf("the proxy does not end")
		}
	})
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
	p.Use(table(services))
	return b
}

func table(services map[string]service) *routes.Table {
	var all []*networkingv1.Ingress
	for name := range services {
		all = append(all, &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
			Spec: networkingv1.IngressSpec{
				TLS: []networkingv1.IngressTLS{{Hosts: []string{name + ".test"}, SecretName: "tls"}},
				Rules: []networkingv1.IngressRule{{Host: name + ".test", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
					{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}}},
				}}}}},
			},
		})
	}
	t := routes.Compile(routes.Input{
		Ingresses: all, MaxPaths: 100,
		Service: func(_, name string) *corev1.Service {
			p := corev1.ServicePort{Port: 80}
			if s := services[name].scheme; s != "" {
				p.AppProtocol = &s
			}
			return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{p}}}
		},
		Slices: func(string, string) []*discoveryv1.EndpointSlice { return nil },
	}).Table
	for name, s := range services {
		t.Find(name+".test", "/").Endpoints = s.endpoints
	}
	return t
}

func certificate(t *testing.T, host string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// echo tells what a backend is asked.
type echo struct {
	Proto, Method, Host, URI, Body string
	Header                         http.Header
}

func (echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(echo{r.Proto, r.Method, r.Host, r.RequestURI, string(body), r.Header})
}

// backend serves a handler by HTTP/1.1 and by HTTP/2 without TLS.
func backend(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// client dials the proxy whatever it asks for, and knows no certificate.
func (b *begun) client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		Protocols:       new(http.Protocols),
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			to := b.http
			if strings.HasSuffix(address, ":443") {
				to = b.https
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", to)
		},
	}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetHTTP2(http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func ask(t *testing.T, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func heard(t *testing.T, text string) echo {
	t.Helper()
	var e echo
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return e
}

// TestForwards: by HTTP/1.1 and HTTP/2, with TLS and without, to backends of each kind.
func TestForwards(t *testing.T) {
	secure := httptest.NewTLSServer(echo{})
	t.Cleanup(secure.Close)
	plain := backend(t, echo{})
	b := begin(t, `{}`, map[string]service{
		"plain": {"", []string{plain}}, "grpc": {"kubernetes.io/h2c", []string{plain}}, "secure": {"https", []string{secure.Listener.Addr().String()}},
		"nobody": {},
	})
	for _, http2 := range []bool{false, true} {
		c := b.client(t, http2)
		for _, scheme := range []string{"http", "https"} {
			for name, proto := range map[string]string{"plain": "HTTP/1.1", "grpc": "HTTP/2.0", "secure": "HTTP/1.1"} {
				response, text := ask(t, c, request(t, "POST", scheme+"://"+name+".test/a%2Fb/../c;d?x=1;y=%zz", strings.NewReader("hello")))
				e := heard(t, text)
				if response.StatusCode != 200 || e.Proto != proto || e.Method != "POST" || e.Host != name+".test" || e.URI != "/a%2Fb/../c;d?x=1;y=%zz" || e.Body != "hello" {
					t.Errorf("%s to %s: %s %+v", scheme, name, response.Status, e)
				}
				if got := e.Header.Get("X-Forwarded-Proto"); got != scheme || e.Header.Get("X-Forwarded-For") != "127.0.0.1" || e.Header.Get("X-Forwarded-Host") != name+".test" || e.Header.Get("X-Real-Ip") != "127.0.0.1" {
					t.Errorf("%s to %s: %v", scheme, name, e.Header)
				}
				if response.TLS != nil && response.TLS.PeerCertificates[0].DNSNames[0] != name+".test" {
					t.Errorf("%s has the certificate of %v", name, response.TLS.PeerCertificates[0].DNSNames)
				}
			}
			for url, want := range map[string]int{"nobody.test/": 503, "unknown.test/": 404} {
				if response, text := ask(t, c, request(t, "GET", scheme+"://"+url, nil)); response.StatusCode != want || strings.Contains(text, "127.0.0.1") {
					t.Errorf("%s: %s %s", url, response.Status, text)
				}
			}
		}
	}
	if response, _ := ask(t, b.client(t, false), request(t, "GET", "https://unknown.test/", nil)); response.TLS.PeerCertificates[0].DNSNames[0] != "own" {
		t.Error("a host that nobody named has another's certificate")
	}
}

// TestForwardedHeaders: what clients say of themselves does not reach a backend, however it
// is spelled (hostile); what a trusted proxy says does.
func TestForwardedHeaders(t *testing.T) {
	services := map[string]service{"a": {"", []string{backend(t, echo{})}}}
	send := func(config string) http.Header {
		b := begin(t, config, services)
		r := request(t, "GET", "http://a.test/", nil)
		r.Header = http.Header{
			"X-Forwarded-For": {"203.0.113.9, 10.0.0.7"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"bank.test"}, "X-Forwarded-Port": {"1"},
			"X-Real-Ip": {"203.0.113.9"}, "Forwarded": {"for=203.0.113.9"}, "X_forwarded_for": {"203.0.113.9"}, "X_real_ip": {"203.0.113.9"},
			"X-Forwarded_user": {"admin"}, "X-Other": {"kept"}, "Connection": {"X-Forwarded-For, X-Hop"}, "X-Hop": {"gone"},
		}
		_, text := ask(t, b.client(t, false), r)
		return heard(t, text).Header
	}
	got := send(`{}`)
	for name, values := range got {
		if strings.Contains(strings.Join(values, " "), "203.0.113.9") || strings.Contains(strings.ToLower(name), "_") || name == "X-Hop" || name == "X-Forwarded-Port" || name == "Forwarded" {
			t.Errorf("%s: %v", name, values)
		}
	}
	if got.Get("X-Forwarded-For") != "127.0.0.1" || got.Get("X-Forwarded-Proto") != "http" || got.Get("X-Forwarded-Host") != "a.test" || got.Get("X-Other") != "kept" {
		t.Errorf("%v", got)
	}
	got = send(`{"trustedProxies":["127.0.0.0/8","10.0.0.0/8"]}`)
	if got.Get("X-Forwarded-For") != "203.0.113.9, 10.0.0.7, 127.0.0.1" || got.Get("X-Real-Ip") != "203.0.113.9" || got.Get("X-Forwarded-Proto") != "https" || got.Get("X-Forwarded-Host") != "bank.test" {
		t.Errorf("behind a trusted proxy: %v", got)
	}
}

// raw sends bytes and returns what comes back until the proxy closes.
func raw(t *testing.T, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c)
	return string(got)
}

// TestSmuggling: requests that two parsers could read differently reach no backend, or
// reach it as one (hostile).
func TestSmuggling(t *testing.T) {
	var count atomic.Int32
	address := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		if r.URL.Path == "/smuggled" {
			t.Errorf("a request was smuggled: %v", r)
		}
		echo{}.ServeHTTP(w, r)
	}))
	b := begin(t, `{}`, map[string]service{"a": {"", []string{address}}})
	const within = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"
	for name, c := range map[string]struct {
		header string
		reach  int32
		status string
	}{
		"two lengths":            {"Content-Length: 5\r\nContent-Length: 0\r\n", 0, "400"},
		"signed length":          {"Content-Length: +5\r\n", 0, "400"},
		"rubbish coding":         {"Transfer-Encoding: xchunked\r\n", 0, "501"},
		"two codings":            {"Transfer-Encoding: chunked, identity\r\n", 0, "501"},
		"space before colon":     {"Content-Length : 5\r\n", 0, "400"},
		"folded line":            {"X-A: b\r\n Content-Length: 5\r\n", 1, "200"},
		"header without a colon": {"Transfer-Encoding\r\n", 0, "400"},
		"two hosts":              {"Host: b.test\r\n", 0, "400"},
		"zero byte":              {"X-A: a\x00b\r\n", 0, "400"},
		"large header":           {"X-A: " + strings.Repeat("a", 80<<10) + "\r\n", 0, "431"},
	} {
		t.Run(name, func(t *testing.T) {
			count.Store(0)
			got := raw(t, b.http, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n"+c.header+"\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 "+c.status) || count.Load() != c.reach {
				t.Errorf("%d requests reached the backend: %.200s", count.Load(), got)
			}
		})
	}
	t.Run("length and chunks", func(t *testing.T) {
		got := raw(t, b.http, "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+within)
		if strings.Count(got, "HTTP/1.1 ") != 1 {
			t.Errorf("%s", got)
		}
	})
	t.Run("upgrade to HTTP/2", func(t *testing.T) {
		got := raw(t, b.http, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		_, body, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200") || strings.Contains(body, "h2c") || strings.Contains(body, "AAMAAABk") {
			t.Errorf("%s", got)
		}
	})
	for line, want := range map[string]string{
		"CONNECT a.test:443 HTTP/1.1":      "405",
		"TRACE / HTTP/1.1":                 "405",
		"OPTIONS * HTTP/1.1":               "400",
		"GET http://other.test/ HTTP/1.1":  "404",
		"GET http://a.test/\x01 HTTP/1.1":  "400",
		"GET / HTTP/3.7":                   "505",
		"PRI * HTTP/2.0\r\nX: y\r\n\r\nZZ": "505",
	} {
		if got := raw(t, b.http, line+"\r\nHost: a.test\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 "+want) && want != "505" || strings.Contains(got, "HTTP/1.1 200") {
			t.Errorf("%q: %.100s", line, got)
		}
	}
}

// TestMisdirected: a connection made for one host's certificate asks for no other's (hostile).
func TestMisdirected(t *testing.T) {
	address := backend(t, echo{})
	b := begin(t, `{}`, map[string]service{"a": {"", []string{address}}, "b": {"", []string{address}}})
	for sni, want := range map[string]int{"a.test": 421, "b.test": 200, "": 421} {
		c := b.client(t, true)
		c.Transport.(*http.Transport).TLSClientConfig.ServerName = sni
		if sni == "" {
			c.Transport.(*http.Transport).TLSClientConfig.ServerName = "127.0.0.1"
		}
		if response, _ := ask(t, c, request(t, "GET", "https://b.test/", nil)); response.StatusCode != want {
			t.Errorf("by the name %q: %s", sni, response.Status)
		}
	}
}

func TestRedirect(t *testing.T) {
	b := begin(t, `{"redirectToHTTPS":true}`, map[string]service{"a": {"", []string{backend(t, echo{})}}})
	response, _ := ask(t, b.client(t, false), request(t, "POST", "http://a.test/x?y=z", strings.NewReader("x")))
	_, port, _ := net.SplitHostPort(b.https)
	if response.StatusCode != 308 || response.Header.Get("Location") != "https://a.test:"+port+"/x?y=z" {
		t.Errorf("%s %v", response.Status, response.Header)
	}
	if response, _ := ask(t, b.client(t, false), request(t, "GET", "https://a.test/", nil)); response.StatusCode != 200 {
		t.Error(response.Status)
	}
	for config, want := range map[string]int{`{"redirectToHTTPS":true}`: 308, `{"redirectToHTTPS":true,"trustedProxies":["127.0.0.0/8"]}`: 200} {
		b := begin(t, config, map[string]service{"a": {"", []string{backend(t, echo{})}}})
		r := request(t, "GET", "http://a.test/", nil)
		r.Header.Set("X-Forwarded-Proto", "https")
		if response, _ := ask(t, b.client(t, false), r); response.StatusCode != want {
			t.Errorf("%s: %s", config, response.Status)
		}
	}
}

// TestUpgrade: bytes pass both ways after an upgrade, which ends with the proxy.
func TestUpgrade(t *testing.T) {
	address := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(c, rw)
	}))
	b := begin(t, `{"clientTimeout":"2s"}`, map[string]service{"a": {"kubernetes.io/ws", []string{address}}})
	c, err := net.Dial("tcp", b.http)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	from := bufio.NewReader(c)
	response, err := http.ReadResponse(from, nil)
	if err != nil || response.StatusCode != 101 {
		t.Fatal(response, err)
	}
	for i := range 3 {
		fmt.Fprintf(c, "word %d\n", i)
		if line, err := from.ReadString('\n'); err != nil || line != fmt.Sprintf("word %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		b.Use(table(map[string]service{})) // a new table cuts nothing
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := from.ReadByte(); err == nil {
		t.Error("the connection outlives the proxy")
	}
}

// TestStreams: an answer comes as it is written, and trailers pass, as gRPC needs them.
func TestStreams(t *testing.T) {
	next := make(chan struct{})
	address := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(200)
		of := http.NewResponseController(w)
		_ = of.Flush()
		from := bufio.NewReader(r.Body)
		for {
			line, err := from.ReadString('\n')
			if err != nil {
				break
			}
			fmt.Fprint(w, "heard ", line)
			_ = of.Flush()
		}
		w.Header().Set("Grpc-Status", "0")
		close(next)
	}))
	b := begin(t, `{"clientTimeout":"2s"}`, map[string]service{"a": {"kubernetes.io/h2c", []string{address}}})
	out, in := io.Pipe()
	r := request(t, "POST", "https://a.test/s/m", out)
	r.Header.Set("Te", "trailers")
	r.Header.Set("Content-Type", "application/grpc+proto")
	response, err := b.client(t, true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	from := bufio.NewReader(response.Body)
	silent := time.NewTimer(2500 * time.Millisecond) // longer than others' bodies may be
	<-silent.C
	for i := range 3 {
		fmt.Fprintf(in, "%d\n", i)
		if line, err := from.ReadString('\n'); err != nil || line != fmt.Sprintf("heard %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
	}
	in.Close()
	<-next
	if _, err := io.ReadAll(from); err != nil || response.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%v, %v", err, response.Trailer)
	}
}

// TestRetries: an endpoint that nobody listens at is passed over, whatever the method; one
// that took the request is not followed by a second.
func TestRetries(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	var breaks atomic.Int32
	broken := backend(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		breaks.Add(1)
		panic(http.ErrAbortHandler)
	}))
	b := begin(t, `{}`, map[string]service{
		"half": {"", []string{gone.Addr().String(), backend(t, echo{})}}, "none": {"", []string{gone.Addr().String()}},
		"broken": {"", []string{broken, broken + ""}},
	})
	c := b.client(t, false)
	for range 6 {
		response, text := ask(t, c, request(t, "POST", "http://half.test/", strings.NewReader("once")))
		if response.StatusCode != 200 || heard(t, text).Body != "once" {
			t.Fatalf("%s %s", response.Status, text)
		}
	}
	if response, text := ask(t, c, request(t, "GET", "http://none.test/", nil)); response.StatusCode != 502 || strings.Contains(text, "127.0.0.1") {
		t.Errorf("%s %s", response.Status, text)
	}
	for method, want := range map[string]int32{"POST": 1, "DELETE": 1, "GET": 2} {
		var body io.Reader
		if method == "POST" {
			body = strings.NewReader("once")
		}
		breaks.Store(0)
		if response, _ := ask(t, c, request(t, method, "http://broken.test/", body)); response.StatusCode != 502 || breaks.Load() != want {
			t.Errorf("%s: %s after %d attempts", method, response.Status, breaks.Load())
		}
	}
}

// TestTrickle: a client that sends its request byte by byte, or takes no answer, is cut
// (hostile).
func TestTrickle(t *testing.T) {
	gaveUp := make(chan struct{})
	address := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_, err := io.ReadAll(r.Body)
			if err == nil {
				t.Error("the body came")
			}
			return
		}
		for {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
				close(gaveUp)
				return
			}
		}
	}))
	b := begin(t, `{"headerTimeout":"2s","clientTimeout":"200ms","idleTimeout":"200ms"}`, map[string]service{"a": {"", []string{address}}})
	for name, begins := range map[string]string{
		"nothing":        "",
		"half a header":  "GET / HTTP/1.1\r\nHost: a.test\r\nX-",
		"half a body":    "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nhalf",
		"no next chunk":  "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"body to nobody": "POST / HTTP/1.1\r\nHost: unknown.test\r\nContent-Length: 1000\r\n\r\nhalf",
		"no next one":    "GET / HTTP/1.1\r\nHost: unknown.test\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := raw(t, b.http, begins); strings.Contains(got, " 200 ") { // raw returns when the proxy closed
				t.Errorf("%s", got)
			}
		})
	}
	t.Run("no TLS handshake", func(t *testing.T) {
		t.Parallel()
		_ = raw(t, b.https, "\x16\x03\x01")
	})
	t.Run("answered before its body came", func(t *testing.T) {
		t.Parallel()
		early := backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 64<<10))
		}))
		b := begin(t, `{"maxRequests":1,"clientTimeout":"500ms"}`, map[string]service{"a": {"", []string{early}}})
		held := raw(t, b.http, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n1")
		if !strings.HasPrefix(held, "HTTP/1.1 ") {
			t.Errorf("%.100q", held)
		}
		if response, _ := ask(t, b.client(t, false), request(t, "GET", "http://a.test/", nil)); response.StatusCode != 200 {
			t.Errorf("the only slot is held: %s", response.Status)
		}
	})
	t.Run("takes no answer", func(t *testing.T) {
		t.Parallel()
		c, err := net.Dial("tcp", b.http)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		await(t, gaveUp)
	})
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("it does not come about")
	}
}

// TestSharesOfRequests: a backend that hangs takes the share of its namespace and no more;
// one client has a number of connections, and a body a size (hostile).
func TestSharesOfRequests(t *testing.T) {
	var hanging atomic.Int32
	all, free := make(chan struct{}), make(chan struct{})
	hangs := backend(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if hanging.Add(1) == 3 {
			close(all)
		}
		select {
		case <-free:
		case <-r.Context().Done():
		}
	}))
	b := begin(t, `{"maxRequests":5,"maxRequestsPerNamespace":3,"maxBodyBytes":10}`, map[string]service{
		"mallory": {"", []string{hangs}}, "shop": {"", []string{backend(t, echo{})}}, "rpc": {"kubernetes.io/h2c", []string{backend(t, echo{})}},
	})
	c := b.client(t, false)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { ask(t, c, request(t, "GET", "http://mallory.test/", nil)) })
	}
	await(t, all)
	if response, _ := ask(t, c, request(t, "GET", "http://mallory.test/", nil)); response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s", response.Status)
	}
	if response, _ := ask(t, c, request(t, "GET", "http://shop.test/", nil)); response.StatusCode != 200 {
		t.Errorf("another namespace: %s", response.Status)
	}
	close(free)
	wg.Wait()
	if response, _ := ask(t, c, request(t, "GET", "http://mallory.test/", nil)); response.StatusCode != 200 {
		t.Errorf("when they are done: %s", response.Status)
	}
	for name, body := range map[string]io.Reader{"of a length": strings.NewReader("more than ten bytes"), "of chunks": io.MultiReader(strings.NewReader("more than "), strings.NewReader("ten bytes"))} {
		if response, _ := ask(t, c, request(t, "POST", "http://shop.test/", body)); response.StatusCode != 413 {
			t.Errorf("a body %s: %s", name, response.Status)
		}
	}
	stream := request(t, "POST", "https://rpc.test/", strings.NewReader("more than ten bytes"))
	stream.Header.Set("Content-Type", "application/grpc")
	if response, _ := ask(t, b.client(t, true), stream); response.StatusCode != 200 {
		t.Errorf("a stream of gRPC: %s", response.Status)
	}
}

// TestRequestsOfNowhere: a client that has its share of requests under way is refused before
// its next one is routed (hostile).
func TestRequestsOfNowhere(t *testing.T) {
	inside, free := make(chan struct{}), make(chan struct{})
	hangs := backend(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		select {
		case <-free:
		case <-r.Context().Done():
		}
	}))
	b := begin(t, `{"maxRequestsPerClient":1}`, map[string]service{"slow": {"", []string{hangs}}})
	c := b.client(t, false)
	var wg sync.WaitGroup
	wg.Go(func() { ask(t, c, request(t, "GET", "http://slow.test/", nil)) })
	await(t, inside)
	if response, _ := ask(t, c, request(t, "GET", "http://nowhere.test/", nil)); response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
		t.Errorf("a host that nobody has: %s", response.Status)
	}
	close(free)
	wg.Wait()
	late := time.Now().Add(patience)
	for status := 0; status != 404; {
		response, _ := ask(t, c, request(t, "GET", "http://nowhere.test/", nil))
		if status = response.StatusCode; status != 404 && time.Now().After(late) {
			t.Fatalf("afterwards: %s", response.Status)
		}
	}
}

// TestConnections: of one address there are so many connections, and of all together.
func TestConnections(t *testing.T) {
	g := newGate(4, 2)
	a, other := addressOf("192.0.2.1:1"), addressOf("[2001:db8::1]:1")
	if other != addressOf("[2001:db8::2]:9") || other == addressOf("[2001:db8:0:1::1]:1") || addressOf("[::ffff:192.0.2.1]:7") != a || addressOf("x") != (netip.Addr{}) {
		t.Error("whose an address is")
	}
	for i, c := range []struct {
		from netip.Addr
		want bool
	}{{a, true}, {a, true}, {a, false}, {other, true}, {other, true}, {addressOf("192.0.2.3:1"), false}} {
		if g.enter(c.from, false) != c.want {
			t.Errorf("connection %d", i)
		}
	}
	g.leave(a)
	if !g.enter(a, false) {
		t.Error("one that ended counts on")
	}
	trusts := func(a netip.Addr) bool { return a == netip.MustParseAddr("2001:db8::9") }
	proxy, trusted := clientOf("[2001:db8::9]:1", trusts)
	if _, neighbour := clientOf("[2001:db8::8]:1", trusts); !trusted || neighbour {
		t.Error("whom the proxy trusts")
	}
	g.leave(other)
	g.leave(other)
	if !g.enter(proxy, true) || !g.enter(proxy, true) || g.enter(proxy, true) {
		t.Error("a trusted proxy has no more than others, or more than all")
	}
	g.leave(a)
	if !g.enter(proxy, true) {
		t.Error("a trusted proxy has no more than others")
	}
	requests := newBudget(5, 3, 2)
	for i, c := range []struct {
		to   string
		of   netip.Addr
		want bool
	}{{"shop", a, true}, {"bank", a, true}, {"bank", a, false}, {"shop", proxy, true}, {"shop", proxy, true}, {"shop", proxy, false}, {"bank", proxy, true}, {"bank", addressOf("192.0.2.3:1"), false}} {
		if requests.enter(c.to, c.of, c.of == proxy) != c.want {
			t.Errorf("request %d", i)
		}
	}
	requests.leave("bank", a)
	if !requests.enter("bank", a, false) {
		t.Error("a request that ended counts on")
	}
	b := begin(t, `{"maxConnectionsPerClient":2,"maxConnections":4}`, map[string]service{"a": {"", []string{backend(t, echo{})}}})
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", b.http)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		// An answer says that it was taken.
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: unknown.test\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	third, err := net.Dial("tcp", b.http)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	_ = third.SetDeadline(time.Now().Add(patience))
	if n, err := third.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("a third connection lives: %d, %v", n, err)
	}
	for _, c := range open {
		c.Close()
	}
}

// TestEnd: a request under way comes to its end when the proxy ends, and no new one begins.
func TestEnd(t *testing.T) {
	begun, free := make(chan struct{}), make(chan struct{})
	b := begin(t, `{}`, map[string]service{"a": {"", []string{backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-free
		fmt.Fprint(w, "done")
	}))}}})
	answered := make(chan string, 1)
	go func() {
		_, text := ask(t, b.client(t, false), request(t, "GET", "http://a.test/", nil))
		answered <- text
	}()
	await(t, begun)
	ended := make(chan error, 1)
	go func() { ended <- b.stop() }()
	// The listener closes first.
	for deadline := time.Now().Add(patience); ; {
		c, err := net.Dial("tcp", b.http)
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("it still listens")
		}
	}
	close(free)
	if text := <-answered; text != "done" {
		t.Errorf("the request under way has %q", text)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestEndOfUpgrade: neither an upgraded client that reads nothing nor a backend that is
// done keeps the proxy from its end (hostile).
func TestEndOfUpgrade(t *testing.T) {
	full := make(chan struct{})
	address := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if r.URL.Path == "/done" {
			return
		}
		block := bytes.Repeat([]byte("x"), 64<<10)
		for {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := c.Write(block); err != nil {
				close(full)
				return
			}
		}
	}))
	b := begin(t, `{}`, map[string]service{"a": {"", []string{address}}})
	for _, path := range []string{"/done", "/flood"} {
		plain, err := net.Dial("tcp", b.https)
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		c := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", path)
		one := make([]byte, 1)
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatal(err)
		}
	}
	await(t, full)
	if err := b.stop(); err != nil {
		t.Error(err)
	}
}

// TestListen: a port that another has is named in the error, and nothing stays open.
func TestListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := settings.Default()
	s.HTTPAddresses, s.HTTPSAddresses = []string{"127.0.0.1:0"}, []string{l.Addr().String()}
	p := New(s, nil, nil, slog.New(slog.DiscardHandler))
	if err := p.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "listen at "+l.Addr().String()) || len(p.Addresses()) > 0 {
		t.Errorf("%v, open: %v", err, p.Addresses())
	}
}
