package limits

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// as gives a request what the chain before would: who sends it (the header User, of
// system:masters if it is "admin"), and what it asks for.
func as(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name := req.Header.Get("User")
		u := &user.DefaultInfo{Name: name}
		if name == "" {
			u.Name = user.Anonymous
		}
		if name == "admin" {
			u.Groups = []string{user.SystemPrivilegedGroup}
		}
		ctx := request.WithUser(req.Context(), u)
		info := &request.RequestInfo{IsResourceRequest: strings.HasPrefix(req.URL.Path, "/api/"), Path: req.URL.Path}
		if strings.HasSuffix(req.URL.Path, "/watch") {
			info.Verb = "watch"
		}
		next.ServeHTTP(w, req.WithContext(request.WithRequestInfo(ctx, info)))
	})
}

func longRunning(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "watch" }

func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.Error(w, err.Error(), int(status.Status().Code))
}

// serve runs a server with HTTP/1 and HTTP/2.
func serve(t *testing.T, h http.Handler, conns *Connections) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(as(h))
	if conns != nil {
		s.Listener = conns.Listener(s.Listener)
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func dialer(s *httptest.Server, http2 bool) *http.Client {
	c := s.Client()
	roots := c.Transport.(*http.Transport).TLSClientConfig.RootCAs
	p := new(http.Protocols)
	p.SetHTTP1(!http2)
	p.SetHTTP2(http2)
	return &http.Client{Transport: &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}}
}

func send(t *testing.T, c *http.Client, method, url, who string, body io.Reader, length int64) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.ContentLength = length
	}
	req.Header.Set("User", who)
	res, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	return res.StatusCode, strings.TrimSpace(string(data))
}

// echo answers with what it got, and counts how often it was asked.
type echo struct {
	mu    sync.Mutex
	asked int
	wait  chan struct{} // nil: it answers at once
	in    chan struct{}
}

func (e *echo) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e.mu.Lock()
	e.asked++
	e.mu.Unlock()
	if e.in != nil {
		e.in <- struct{}{}
	}
	if e.wait != nil {
		<-e.wait
	}
	_, _ = io.Copy(w, req.Body)
}

// A body that trickles in takes no turn, and is given up; what comes slowly but
// steadily is waited for.
func TestSlowBodies(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1", true: "HTTP/2"}[http2], func(t *testing.T) {
			e := &echo{}
			l := NewBodies(0, 1<<20, refuse)
			l.grace = 50 * time.Millisecond
			s := serve(t, l.Before(e, longRunning), nil)
			code, text := trickle(t, s, http2)
			if code != http.StatusRequestTimeout || !strings.Contains(text, "did not come within 50ms") {
				t.Errorf("got %d %s", code, text)
			}
			if e.asked != 0 {
				t.Error("the request was served before its body was there")
			}
			l.grace = bodyGrace // a whole body may take longer than it takes to refuse one
			if code, text = send(t, dialer(s, http2), http.MethodPost, s.URL+"/api/x", "u", strings.NewReader("whole"), -1); code != 200 || text != "whole" {
				t.Errorf("after it: %d %s", code, text)
			}
		})
	}
}

// trickle sends the first byte of a body of a hundred, and no more.
func trickle(t *testing.T, s *httptest.Server, http2 bool) (int, string) {
	t.Helper()
	if http2 {
		r, w := io.Pipe()
		t.Cleanup(func() { w.Close() })
		go func() { _, _ = w.Write([]byte("{")) }()
		return send(t, dialer(s, http2), http.MethodPost, s.URL+"/api/x", "u", r, 100)
	}
	c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /api/x HTTP/1.1\r\nHost: x\r\nUser: u\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	if !res.Close {
		t.Error("the connection is kept for more")
	}
	return res.StatusCode, string(data)
}

func TestBodiesComeWhole(t *testing.T) {
	l := NewBodies(0, 100_000, refuse)
	s := serve(t, l.Before(&echo{}, longRunning), nil)
	for _, n := range []int{1, 4095, 4096, 4097, 99_999, 100_000, 100_001, 300_000} {
		body := strings.Repeat("x", n)
		for _, length := range []int64{int64(n), -1} {
			if code, text := send(t, dialer(s, true), http.MethodPut, s.URL+"/api/x", "u", strings.NewReader(body), length); code != 200 || text != body {
				t.Errorf("a body of %d, declared as %d: %d, %d bytes", n, length, code, len(text))
			}
		}
	}
}

// What is held is what has come, until the request is through. One user's limit
// leaves the others theirs.
func TestBodiesHoldMemory(t *testing.T) {
	e := &echo{wait: make(chan struct{}), in: make(chan struct{})}
	l := NewBodies(80_000, 10_000, refuse)
	s := serve(t, l.Before(e, longRunning), nil)
	c := dialer(s, true)
	body := strings.Repeat("x", 9_000)
	var wg sync.WaitGroup
	post := func(who string, want int) {
		wg.Go(func() {
			if code, text := send(t, c, http.MethodPost, s.URL+"/api/x", who, strings.NewReader(body), int64(len(body))); code != want {
				t.Errorf("%s: %d %s, want %d", who, code, text, want)
			}
		})
	}
	for range 2 {
		post("greedy", 200)
		<-e.in
	}
	if code, text := send(t, c, http.MethodPost, s.URL+"/api/x", "greedy", strings.NewReader(body), int64(len(body))); code != http.StatusTooManyRequests || !strings.Contains(text, `user "greedy"`) {
		t.Errorf("the third of one user: %d %s", code, text)
	}
	for _, who := range []string{"a", "a", "b", "b", "c", "c"} {
		post(who, 200)
		<-e.in
	}
	if code, text := send(t, c, http.MethodPost, s.URL+"/api/x", "d", strings.NewReader(body), int64(len(body))); code != http.StatusTooManyRequests || !strings.Contains(text, "the server's limit") {
		t.Errorf("above all: %d %s", code, text)
	}
	post("admin", 200)
	<-e.in
	close(e.wait)
	wg.Wait()
	if l.held.used != 0 || len(l.held.users) != 0 {
		t.Errorf("%d bytes are held by %v after the last", l.held.used, l.held.users)
	}
}

// Who declares much and sends little holds little.
func TestDeclaredLengthTakesNothing(t *testing.T) {
	l := NewBodies(0, 3<<20, refuse)
	l.grace = 30 * time.Millisecond
	l.held.total, l.held.perUser = 5*firstRead, 5*firstRead
	s := serve(t, l.Before(&echo{}, longRunning), nil)
	var wg sync.WaitGroup
	for range 4 {
		r, w := io.Pipe()
		t.Cleanup(func() { w.Close() })
		wg.Go(func() {
			if code, text := send(t, dialer(s, true), http.MethodPost, s.URL+"/api/x", "u", r, 3<<20); code != http.StatusRequestTimeout {
				t.Errorf("%d %s", code, text)
			}
		})
	}
	wg.Wait()
	if l.held.used != 0 {
		t.Errorf("%d bytes are held", l.held.used)
	}
}

// Streams and what is no resource read their own bodies.
func TestBodiesOfStreamsAreLeft(t *testing.T) {
	e := &echo{in: make(chan struct{}, 1)}
	s := serve(t, NewBodies(1, 1, refuse).Before(e, longRunning), nil)
	for _, path := range []string{"/api/x/watch", "/kernel/store/restore"} {
		r, w := io.Pipe()
		done := make(chan string)
		go func() {
			_, text := send(t, dialer(s, true), http.MethodPost, s.URL+path, "u", r, -1)
			done <- text
		}()
		<-e.in // it is served while its body is on the way
		_, _ = io.WriteString(w, "later")
		w.Close()
		if text := <-done; text != "later" {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestWatches(t *testing.T) {
	e := &echo{wait: make(chan struct{}), in: make(chan struct{})}
	l := NewWatches(4, 2, refuse)
	s := serve(t, l.Before(e, longRunning), nil)
	c := dialer(s, true)
	var wg sync.WaitGroup
	watch := func(who string) {
		wg.Go(func() { send(t, c, http.MethodGet, s.URL+"/api/x/watch", who, nil, 0) })
		<-e.in
	}
	refused := func(who, why string) {
		t.Helper()
		if code, text := send(t, c, http.MethodGet, s.URL+"/api/x/watch", who, nil, 0); code != http.StatusTooManyRequests || !strings.Contains(text, why) {
			t.Errorf("%s: %d %s, want %q", who, code, text, why)
		}
	}
	watch("a")
	watch("a")
	refused("a", `user "a" has 2 watches`)
	watch("") // anonymous
	watch("")
	refused("", "system:anonymous of 127.0.0.1")
	refused("b", "the server has 4 watches")
	watch("admin")
	close(e.wait)
	wg.Wait()
	e.in, e.wait = nil, nil
	if code, _ := send(t, c, http.MethodGet, s.URL+"/api/x/watch", "a", nil, 0); code != 200 {
		t.Errorf("after the others have ended: %d", code)
	}
	if l.open.used != 0 {
		t.Errorf("%d are counted after the last", l.open.used)
	}
}

// dial opens a connection on which nothing is said.
func dial(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ended waits until the other side has closed.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the connection is open: %v", err)
	}
}

// Silent connections of one address cannot keep it from others of that address: the
// oldest give way.
func TestSilentConnectionsGiveWay(t *testing.T) {
	l := NewConnections(100, 10, 3, refuse)
	s := serve(t, l.Before(&echo{}), l)
	var silent []net.Conn
	for range 5 {
		silent = append(silent, dial(t, s))
	}
	for range 3 {
		if code, text := send(t, dialer(s, true), http.MethodGet, s.URL+"/api/x", "u", nil, 0); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
	}
	ended(t, silent[0])
	ended(t, silent[1])
}

// A listener that is full of silent connections takes in who comes.
func TestFullOfSilentConnections(t *testing.T) {
	l := NewConnections(3, 0, 0, refuse)
	s := serve(t, l.Before(&echo{}), l)
	first := dial(t, s)
	dial(t, s)
	dial(t, s)
	if code, text := send(t, dialer(s, true), http.MethodGet, s.URL+"/api/x", "u", nil, 0); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	ended(t, first)
}

func TestConnectionsOfAUser(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1", true: "HTTP/2"}[http2], func(t *testing.T) {
			l := NewConnections(20, 2, 0, refuse)
			s := serve(t, l.Before(&echo{}), l)
			get := func(c *http.Client, who string) (int, string) {
				return send(t, c, http.MethodGet, s.URL+"/api/x", who, nil, 0)
			}
			mine := []*http.Client{dialer(s, http2), dialer(s, http2)}
			for _, c := range mine {
				if code, text := get(c, "u"); code != 200 {
					t.Fatalf("%d %s", code, text)
				}
			}
			if code, text := get(dialer(s, http2), "u"); code != http.StatusTooManyRequests || !strings.Contains(text, `user "u" has 2 connections`) {
				t.Errorf("the third: %d %s", code, text)
			}
			if code, text := get(mine[0], "u"); code != 200 {
				t.Errorf("the first, again: %d %s", code, text)
			}
			for _, who := range []string{"other", "admin", ""} {
				if code, text := get(dialer(s, http2), who); code != 200 {
					t.Errorf("%q: %d %s", who, code, text)
				}
			}
			mine[0].CloseIdleConnections()
			for code := 0; code != 200; {
				if code, _ = get(dialer(s, http2), "u"); code != 200 && code != http.StatusTooManyRequests {
					t.Fatalf("after one was closed: %d", code)
				}
			}
		})
	}
}

// Users leave the last tenth to administrators.
func TestLastConnections(t *testing.T) {
	l := NewConnections(10, 0, 0, refuse)
	s := serve(t, l.Before(&echo{}), l)
	for i := range 9 {
		if code, text := send(t, dialer(s, true), http.MethodGet, s.URL+"/api/x", string(rune('a'+i)), nil, 0); code != 200 {
			t.Fatalf("%d: %d %s", i, code, text)
		}
	}
	if code, text := send(t, dialer(s, true), http.MethodGet, s.URL+"/api/x", "z", nil, 0); code != http.StatusTooManyRequests || !strings.Contains(text, "the server has 9 connections") {
		t.Errorf("the tenth user: %d %s", code, text)
	}
	if code, text := send(t, dialer(s, true), http.MethodGet, s.URL+"/api/x", "admin", nil, 0); code != 200 {
		t.Errorf("the administrator: %d %s", code, text)
	}
}

// Nothing is kept of connections that have ended.
func TestConnectionsAreForgotten(t *testing.T) {
	l := NewConnections(5, 5, 5, refuse)
	s := serve(t, l.Before(&echo{}), l)
	for i := range 20 {
		c := dialer(s, i%2 == 0)
		if code, text := send(t, c, http.MethodGet, s.URL+"/api/x", []string{"u", ""}[i%2], nil, 0); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
		c.CloseIdleConnections()
	}
	s.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count != 0 || l.known != 0 || l.unknown.Len() != 0 || len(l.users) != 0 || len(l.sources) != 0 {
		t.Errorf("%d connections, %d known, %d unknown, of users %v and sources %v", l.count, l.known, l.unknown.Len(), l.users, l.sources)
	}
	l.open.Range(func(k, _ any) bool { t.Errorf("%v is open", k); return true })
}
