package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// scripted answers each request by the text that its path names, and remembers what it read.
type scripted struct {
	answers map[string]string
	mu      sync.Mutex
	heads   []string
}

func (s *scripted) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		head, path := "", ""
		for !strings.HasSuffix(head, "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if head == "" {
				words := strings.Fields(line)
				if len(words) != 3 {
					return // of a body
				}
				path = words[1]
			}
			head += line
		}
		s.mu.Lock()
		s.heads = append(s.heads, head)
		s.mu.Unlock()
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "?")
		text, known := s.answers[name]
		if _, err := io.WriteString(c, text); err != nil || !known || !strings.HasPrefix(name, "kept") {
			return
		}
	}
}

// volatile are the parts of an answer and of a request that differ from one to the next.
var volatile = regexp.MustCompile(`(?m)^Date: .*\r$`)

// TestDirectAlike: clients and backends see the same with directForwarding and without it,
// whatever either of them sends (hostile).
func TestDirectAlike(t *testing.T) {
	log.SetOutput(io.Discard) // of net/http, which finds answers that it did not ask for
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	backends := &scripted{answers: map[string]string{
		"kept":        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"kept-chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: v\r\n\r\n",
		"kept-hints":  "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"hop":         "HTTP/1.1 200 OK\r\nConnection: X-Secret, close\r\nX-Secret: a\r\nKeep-Alive: 5\r\nContent-Length: 2\r\n\r\nok",
		"events":      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n",
		"lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"short":       "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok",
		"chunks":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz",
		"upgraded":    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"ninety-nine": "HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok",
		"large":       "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n",
		"rubbish":     "220 smtp.example.com\r\n\r\n",
		"nothing":     "",
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go backends.serve(c)
		}
	}()
	services := map[string]service{"a": {"", []string{l.Addr().String()}}}
	with, without := begin(t, `{}`, services), begin(t, `{"directForwarding":false}`, services)
	if with.forwarder.direct == nil || without.forwarder.direct != nil {
		t.Fatal("directForwarding is not what it says")
	}
	clients := map[string]string{}
	for name := range backends.answers {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE"} {
			clients[method+" of "+name] = method + " /" + name + "?a=%zz&b;c HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
		}
	}
	for name, header := range map[string]string{
		"nothing else":           "",
		"many values":            "X-A: b\r\nX-A: c\r\nCookie: d\r\nCookie: e\r\nAccept-Encoding: gzip\r\n",
		"names of connections":   "Connection: X-Forwarded-For, X-Secret\r\nX-Secret: a\r\n",
		"who it is":              "X-Forwarded-For: 192.0.2.1\r\nX_Forwarded_Host: b\r\nForwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n",
		"trailers":               "TE: trailers\r\nTrailer: X\r\n",
		"length 0":               "Content-Length: 0\r\n",
		"two lengths":            "Content-Length: 0\r\nContent-Length: 5\r\n",
		"two equal lengths":      "Content-Length: 0\r\nContent-Length: 0\r\n",
		"signed length":          "Content-Length: +0\r\n",
		"length and chunks":      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
		"chunks of nothing":      "Transfer-Encoding: chunked\r\n\r\n0\r\n",
		"chunked with a capital": "Transfer-Encoding: Chunked\r\n\r\n0\r\n",
		"hidden coding":          "Transfer-Encoding: \x0bchunked\r\n",
		"coding with underscore": "Transfer_Encoding: chunked\r\n",
		"space before a colon":   "Transfer-Encoding : chunked\r\n",
		"folded line":            "X-A: b\r\n Transfer-Encoding: chunked\r\n",
		"carriage return":        "X-A: b\rTransfer-Encoding: chunked\r\n",
		"another host":           "Host: b.test\r\n",
		"upgrade":                "Upgrade: websocket\r\n",
		"upgrade to HTTP/2":      "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"to be continued":        "Expect: 100-continue\r\n",
		"hop by hop":             "Proxy-Authorization: a\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\n",
		"bytes above ASCII":      "X-A: \xff\xfe\r\n",
		"a range":                "Range: bytes=0-0\r\nIf-None-Match: *\r\n",
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST"} {
			clients[method+" with "+name] = method + " /kept HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n" + header + "\r\n"
		}
	}
	for name, line := range map[string]string{
		"HTTP/1.0": "GET /kept HTTP/1.0", "whole URL": "GET http://a.test/kept HTTP/1.1", "no path": "GET ?a HTTP/1.1", "star": "OPTIONS * HTTP/1.1",
		"two slashes": "GET //kept HTTP/1.1", "dots": "GET /x/../kept HTTP/1.1", "escapes": "GET /%6bept?%00 HTTP/1.1", "fragment": "GET /kept#x HTTP/1.1",
	} {
		clients[name] = line + "\r\nHost: a.test\r\nConnection: close\r\n\r\n"
	}
	clients["one after the other"] = strings.Repeat("GET /kept HTTP/1.1\r\nHost: a.test\r\n\r\n", 3) + "GET /kept HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
	asked := 0
	for name, text := range clients {
		t.Run(name, func(t *testing.T) {
			var seen []string
			for _, b := range []*begun{with, without} {
				// Transport would take a connection that the backend is about to end.
				b.forwarder.transports[routes.HTTP].CloseIdleConnections()
				backends.mu.Lock()
				backends.heads = nil
				backends.mu.Unlock()
				got := volatile.ReplaceAllString(raw(t, b.http, text), "Date:")
				backends.mu.Lock()
				asked += len(backends.heads)
				// How often depends on whether the connection was kept.
				got += fmt.Sprintf("\nthe backend read: %q", slices.Compact(backends.heads))
				backends.mu.Unlock()
				seen = append(seen, strings.ReplaceAll(got, b.http, "ADDRESS"))
			}
			if seen[0] != seen[1] {
				t.Errorf("with directForwarding: %s\n\nwithout: %s", seen[0], seen[1])
			}
		})
	}
	if asked < len(clients) {
		t.Errorf("backends were asked %d times for %d requests to two proxies", asked, len(clients))
	}
}
