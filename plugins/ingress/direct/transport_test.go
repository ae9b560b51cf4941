package direct

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 2 * time.Minute

// server answers the first request of the test by a script, and each other one by "second".
type server struct {
	net.Listener
	script string
	// hold keeps the connection open after the script.
	hold bool

	mu    sync.Mutex
	heads []string // of requests
	conns int
	ended chan struct{} // one for each connection that its client ended
}

const second = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"

func serve(t *testing.T, script string, hold bool) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l, script: script, hold: hold, ended: make(chan struct{}, 100)}
	var group sync.WaitGroup
	var open []net.Conn
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			open = append(open, c)
			s.mu.Unlock()
			group.Go(func() {
				defer c.Close()
				s.answer(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range open {
			c.Close()
		}
		s.mu.Unlock()
		group.Wait()
	})
	return s
}

func (s *server) answer(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				s.ended <- struct{}{}
				return
			}
			head.WriteString(line)
		}
		s.mu.Lock()
		s.heads = append(s.heads, strings.ReplaceAll(head.String(), s.Addr().String(), "ADDRESS"))
		first := len(s.heads) == 1
		s.mu.Unlock()
		if !first {
			_, _ = io.WriteString(c, second)
			continue
		}
		if _, err := io.WriteString(c, s.script); err != nil || !s.hold {
			return
		}
	}
}

func (s *server) seen() (heads []string, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heads), s.conns
}

const mostHeader = 8 << 10

func ours() *Transport {
	return &Transport{
		Dial: (&net.Dialer{}).DialContext, MaxIdle: 4, MaxIdlePerHost: 2,
		IdleTimeout: patience, ResponseTimeout: patience, MaxHeaderBytes: mostHeader,
	}
}

func theirs() *http.Transport {
	return &http.Transport{
		DisableCompression: true, MaxIdleConns: 4, MaxIdleConnsPerHost: 2,
		IdleConnTimeout: patience, ResponseHeaderTimeout: patience, MaxResponseHeaderBytes: mostHeader,
	}
}

// outcome is what a caller sees of a request.
type outcome struct {
	Failed, BodyFailed bool
	Status             int
	Header, Trailer    http.Header
	Length             int64
	Close              bool
	Body               string
	Between            []string // answers of 1xx
}

func try(t *testing.T, by http.RoundTripper, r *http.Request) (o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		o.Between = append(o.Between, fmt.Sprint(code, header))
		return nil
	}})
	response, err := by.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.Logf("%T: %v", by, err)
		o.Failed = true
		return o
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	o.BodyFailed, o.Body = err != nil, string(body)
	o.Status, o.Header, o.Length, o.Close = response.StatusCode, response.Header, response.ContentLength, response.Close
	o.Trailer = response.Trailer
	return o
}

func request(t *testing.T, method, host, target string, header http.Header) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.Host = "http", host
	if header == nil {
		header = http.Header{}
	}
	return &http.Request{Method: method, URL: u, Host: "a.test", Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// TestAsTransport: callers and servers see what they see of net/http's Transport, whatever the
// server answers (hostile).
func TestAsTransport(t *testing.T) {
	log.SetOutput(io.Discard) // of Transport, which finds answers that it did not ask for
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	for name, c := range map[string]struct {
		script string
		hold   bool
		// racy: what follows an answer may be the next one to Transport, which is not asked again.
		racy bool
	}{
		"length":                      {script: "HTTP/1.1 200 OK\r\nX-A: b\r\nX-A: c\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"no body":                     {script: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", hold: true},
		"large body":                  {script: "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), hold: true},
		"chunks":                      {script: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfir\r\n2\r\nst\r\n0\r\n\r\n", hold: true},
		"announced trailer":           {script: "HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\nX-T: v\r\n\r\n", hold: true},
		"unannounced trailer":         {script: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\nX-T: v\r\n\r\n", hold: true},
		"forbidden trailer":           {script: "HTTP/1.1 200 OK\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\nContent-Length: 3\r\n\r\n"},
		"until the end":               {script: "HTTP/1.1 200 OK\r\n\r\nfirst"},
		"of HTTP/1.0":                 {script: "HTTP/1.0 200 OK\r\n\r\nfirst"},
		"of HTTP/1.0, kept":           {script: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"close":                       {script: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nfirst"},
		"length and chunks":           {script: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n", hold: true},
		"two lengths":                 {script: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 3\r\n\r\nfirst"},
		"one length twice":            {script: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"signed length":               {script: "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nfirst"},
		"negative length":             {script: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nfirst"},
		"other coding":                {script: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		"body too short":              {script: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst"},
		"chunks too short":            {script: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfir"},
		"chunks without an end":       {script: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"},
		"rubbish in chunks":           {script: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nfirst\r\n0\r\n\r\n"},
		"204":                         {script: "HTTP/1.1 204 No Content\r\n\r\n", hold: true},
		"204 with a length":           {script: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"},
		"304":                         {script: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", hold: true},
		"103 before":                  {script: "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"100 before":                  {script: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"many before":                 {script: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("a", 200)+"\r\n\r\n", 100) + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"only 103":                    {script: "HTTP/1.1 103 Early Hints\r\n\r\n"},
		"another protocol":            {script: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"},
		"large header":                {script: "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 3*mostHeader) + "\r\nContent-Length: 5\r\n\r\nfirst"},
		"header of the utmost size":   {script: "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", mostHeader-512) + "\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"header without a colon":      {script: "HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 5\r\n\r\nfirst"},
		"space before a colon":        {script: "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nfirst"},
		"folded line":                 {script: "HTTP/1.1 200 OK\r\nX-A: b\r\n Content-Length: 9\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"line feeds alone":            {script: "HTTP/1.1 200 OK\nContent-Length: 5\n\nfirst", hold: true},
		"zero byte in a value":        {script: "HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 5\r\n\r\nfirst"},
		"carriage return in a value":  {script: "HTTP/1.1 200 OK\r\nX-A: a\rX-B: c\r\nContent-Length: 5\r\n\r\nfirst"},
		"no reason":                   {script: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"two digits":                  {script: "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nfirst"},
		"four digits":                 {script: "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nfirst"},
		"status 999":                  {script: "HTTP/1.1 999 Odd\r\nContent-Length: 5\r\n\r\nfirst", hold: true},
		"status 099":                  {script: "HTTP/1.1 099 Odd\r\nContent-Length: 5\r\n\r\nfirst"},
		"rubbish":                     {script: "SSH-2.0-OpenSSH\r\n\r\n"},
		"HTTP/2":                      {script: "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nfirst"},
		"half a header":               {script: "HTTP/1.1 200 OK\r\nX-A: b\r\nCont"},
		"nothing":                     {script: ""},
		"two answers":                 {script: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirstHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", hold: true, racy: true},
		"an answer within no content": {script: "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", hold: true, racy: true},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			racy := c.racy || method == http.MethodHead && !strings.HasSuffix(c.script, "\r\n\r\n") // a body that is none
			t.Run(name+" "+method, func(t *testing.T) {
				var first, next []outcome
				var heads [][]string
				var conns []int
				mine, other := ours(), theirs()
				defer mine.CloseIdleConnections()
				defer other.CloseIdleConnections()
				for i, by := range []http.RoundTripper{mine, other} {
					s := serve(t, c.script, c.hold)
					r := request(t, method, s.Addr().String(), "/a/b?c=d", nil)
					first = append(first, try(t, by, r))
					if i == 0 || !racy {
						next = append(next, try(t, by, request(t, http.MethodGet, s.Addr().String(), "/again", nil)))
					}
					h, n := s.seen()
					heads, conns = append(heads, h), append(conns, n)
				}
				if got, want := fmt.Sprintf("%+v", first[0]), fmt.Sprintf("%+v", first[1]); got != want {
					t.Errorf("the answer:\n%s\nby Transport:\n%s", got, want)
				}
				if next[0].Body != "second" {
					t.Errorf("the next answer: %+v", next[0])
				}
				if !racy && (!slices.Equal(heads[0], heads[1]) || conns[0] != conns[1]) {
					t.Errorf("the server saw %q on %d connections; by Transport %q on %d", heads[0], conns[0], heads[1], conns[1])
				}
			})
		}
	}
}

// TestWritesAsTransport: what a server reads is the same to the byte, whatever the request has
// (hostile).
func TestWritesAsTransport(t *testing.T) {
	for name, c := range map[string]struct {
		host, target string
		header       http.Header
	}{
		"plain":                {"a.test", "/", http.Header{}},
		"escapes":              {"a.test", "/a%2fb/%00?x=%zz&;", http.Header{}},
		"two slashes":          {"a.test", "//b.test/c", http.Header{}},
		"star":                 {"a.test", "*", http.Header{}},
		"values":               {"a.test", "/", http.Header{"X-A": {"b", "c"}, "Cookie": {"d=e", "f=g"}, "X-Empty": {""}}},
		"spaces around":        {"a.test", "/", http.Header{"X-A": {"  b \t"}}},
		"bytes above ASCII":    {"a.test", "/", http.Header{"X-A": {"\x80\xff"}}},
		"no user agent":        {"a.test", "/", http.Header{"User-Agent": {""}}},
		"two user agents":      {"a.test", "/", http.Header{"User-Agent": {"a", "b"}}},
		"lengths":              {"a.test", "/", http.Header{"Content-Length": {"5"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"X"}}},
		"host in the header":   {"a.test", "/", http.Header{"Host": {"b.test"}}},
		"hop by hop":           {"a.test", "/", http.Header{"Te": {"trailers"}, "Keep-Alive": {"1"}, "Proxy-Connection": {"close"}}},
		"line feed in a value": {"a.test", "/", http.Header{"X-A": {"b\r\nX-B: c"}}},
		"zero byte in a value": {"a.test", "/", http.Header{"X-A": {"b\x00"}}},
		"line feed in a name":  {"a.test", "/", http.Header{"X-A\r\nX-B": {"c"}}},
		"colon in a name":      {"a.test", "/", http.Header{"X-A:": {"c"}}},
		"empty name":           {"a.test", "/", http.Header{"": {"c"}}},
		"line feed in host":    {"a.test\r\nX-B: c", "/", http.Header{}},
		"slash in host":        {"a.test/b", "/", http.Header{}},
		"zone in host":         {"[fe80::1%25eth0]:80", "/", http.Header{}},
		"no host":              {"", "/", http.Header{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			var failed []bool
			mine, other := ours(), theirs()
			defer mine.CloseIdleConnections()
			defer other.CloseIdleConnections()
			for _, by := range []http.RoundTripper{mine, other} {
				s := serve(t, second, true)
				r := request(t, http.MethodGet, s.Addr().String(), c.target, c.header.Clone())
				r.Host = c.host
				failed = append(failed, try(t, by, r).Failed)
				heads, _ := s.seen()
				got = append(got, heads)
			}
			if !slices.Equal(got[0], got[1]) || failed[0] != failed[1] {
				t.Errorf("the server read %q, failed: %v; by Transport %q, %v", got[0], failed[0], got[1], failed[1])
			}
		})
	}
}

func TestPlain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"plain":              {func(*http.Request) {}, true},
		"no body":            {func(r *http.Request) { r.Body = http.NoBody }, true},
		"HEAD":               {func(r *http.Request) { r.Method = "HEAD" }, true},
		"POST":               {func(r *http.Request) { r.Method = "POST" }, false},
		"no method":          {func(r *http.Request) { r.Method = "" }, false},
		"small letters":      {func(r *http.Request) { r.Method = "get" }, false},
		"body":               {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("a")) }, false},
		"length":             {func(r *http.Request) { r.ContentLength = 1 }, false},
		"unknown length":     {func(r *http.Request) { r.ContentLength = -1 }, false},
		"chunks":             {func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, false},
		"trailer":            {func(r *http.Request) { r.Trailer = http.Header{"X": nil} }, false},
		"close":              {func(r *http.Request) { r.Close = true }, false},
		"upgrade":            {func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, false},
		"connection":         {func(r *http.Request) { r.Header.Set("Connection", "X-A") }, false},
		"100-continue":       {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, false},
		"TLS":                {func(r *http.Request) { r.URL.Scheme = "https" }, false},
		"no host in its URL": {func(r *http.Request) { r.URL.Host = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, http.MethodGet, "127.0.0.1:1", "/", nil)
			c.change(r)
			if got := Plain(r); got != c.want {
				t.Errorf("%v", got)
			}
			if _, err := ours().RoundTrip(r); !c.want && (err == nil || errors.As(err, new(*net.OpError))) {
				t.Errorf("it was sent: %v", err)
			}
		})
	}
}
