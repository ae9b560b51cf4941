package direct

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
}

// TestGivenUp: a request that is given up ends its connection, before the answer and within it.
func TestGivenUp(t *testing.T) {
	for name, script := range map[string]string{"before": "", "within": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, script, true)
			tr := ours()
			defer tr.CloseIdleConnections()
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("enough")
			defer cancel(nil)
			if script == "" {
				go func() { // ends with the test's context
					for tick := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-tick.C {
						if heads, _ := s.seen(); len(heads) > 0 {
							cancel(why)
						}
					}
				}()
			}
			response, err := tr.RoundTrip(request(t, http.MethodGet, s.Addr().String(), "/", nil).WithContext(ctx))
			if script == "" {
				if !errors.Is(err, why) {
					t.Errorf("%v", err)
				}
			} else if err != nil {
				t.Error(err)
			} else {
				cancel(why)
				if _, err := io.ReadAll(response.Body); err == nil {
					t.Error("the body is whole")
				}
				response.Body.Close()
			}
			if name == "within" {
				await(t, s.ended)
			}
			if o := try(t, tr, request(t, http.MethodGet, s.Addr().String(), "/", nil)); !o.Failed && o.Body != "second" {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestTimeout: a server that sends half a header is waited for no longer than that (hostile).
func TestTimeout(t *testing.T) {
	for name, script := range map[string]string{"nothing": "", "half": "HTTP/1.1 200 OK\r\nX-A: b", "only 103": "HTTP/1.1 103 Early Hints\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, script, true)
			tr := ours()
			tr.ResponseTimeout = 20 * time.Millisecond
			_, err := tr.RoundTrip(request(t, http.MethodGet, s.Addr().String(), "/", nil))
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("%v", err)
			}
			await(t, s.ended)
		})
	}
}

// TestBodyTakesItsTime: the bound of the header is none of the body.
func TestBodyTakesItsTime(t *testing.T) {
	far, near := make(chan struct{}), make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		defer close(far)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
		<-near
		_, _ = io.WriteString(c, "first")
	}()
	tr := ours()
	defer tr.CloseIdleConnections()
	tr.ResponseTimeout = 5 * time.Second // of which a busy machine needs some to answer at all
	response, err := tr.RoundTrip(request(t, http.MethodGet, l.Addr().String(), "/", nil))
	if err != nil {
		close(near)
		t.Fatal(err)
	}
	time.AfterFunc(tr.ResponseTimeout+100*time.Millisecond, func() { close(near) })
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "first" {
		t.Errorf("%q, %v", body, err)
	}
	response.Body.Close()
	await(t, far)
}

// TestKeptBeyondTimeout: the time limit of an answer that was whole at once does not end its
// connection later.
func TestKeptBeyondTimeout(t *testing.T) {
	s := serve(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst", true)
	tr := ours()
	defer tr.CloseIdleConnections()
	tr.ResponseTimeout = 5 * time.Second
	try(t, tr, request(t, http.MethodGet, s.Addr().String(), "/", nil))
	<-time.After(tr.ResponseTimeout)
	if o := try(t, tr, request(t, http.MethodGet, s.Addr().String(), "/", nil)); o.Body != "second" {
		t.Errorf("%+v", o)
	}
	if _, conns := s.seen(); conns != 1 {
		t.Errorf("%d connections", conns)
	}
}

// TestKept: connections are kept up to their numbers and their time, and used again.
func TestKept(t *testing.T) {
	s := serve(t, second, true)
	tr := ours()
	tr.MaxIdle, tr.MaxIdlePerHost = 3, 2
	var open []*http.Response
	get := func(host string) *http.Response {
		response, err := tr.RoundTrip(request(t, http.MethodGet, host, "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	finish := func(all []*http.Response) {
		for _, r := range all {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			r.Body.Close()
			r.Body.Close() // twice is as once
		}
	}
	for range 4 {
		open = append(open, get(s.Addr().String()))
	}
	finish(open)
	await(t, s.ended)
	await(t, s.ended) // of four two are kept
	finish([]*http.Response{get(s.Addr().String())})
	if _, conns := s.seen(); conns != 4 {
		t.Errorf("%d connections", conns)
	}
	other := serve(t, second, true)
	open = []*http.Response{get(other.Addr().String()), get(other.Addr().String())}
	finish(open)
	await(t, s.ended) // the oldest of all made room
	if len(tr.pool.all) != 3 || len(tr.pool.hosts) != 2 {
		t.Errorf("%d connections to %d hosts are kept", len(tr.pool.all), len(tr.pool.hosts))
	}
	tr.CloseIdleConnections()
	for _, c := range []<-chan struct{}{s.ended, other.ended, other.ended} {
		await(t, c)
	}
	finish([]*http.Response{get(s.Addr().String())})
	await(t, s.ended) // none is kept any more
}

func TestKeptTooLong(t *testing.T) {
	s := serve(t, second, true)
	tr := ours()
	tr.IdleTimeout = time.Millisecond
	for range 3 {
		if o := try(t, tr, request(t, http.MethodGet, s.Addr().String(), "/", nil)); o.Body != "second" {
			t.Errorf("%+v", o)
		}
		await(t, s.ended)
	}
}

// TestServerEnds: a server that ends connections between requests, or as one comes, costs no
// request.
func TestServerEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			_, _ = c.Read(buffer)
			_, _ = io.WriteString(c, second)
			_, _ = c.Read(buffer) // of the next request, or nothing
			c.Close()
			ended <- struct{}{}
		}
	}()
	tr := ours()
	defer tr.CloseIdleConnections()
	for range 5 {
		if o := try(t, tr, request(t, http.MethodGet, l.Addr().String(), "/", nil)); o.Body != "second" {
			t.Errorf("%+v", o)
		}
	}
	for range 4 {
		await(t, ended)
	}
}
