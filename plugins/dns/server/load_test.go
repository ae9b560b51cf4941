package server

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// asker asks from an address of loopback of its own, as a pod has one of its own.
type asker struct {
	*dns.Client
	conn *net.UDPConn
}

func newAsker(t *testing.T, last byte, address string) asker {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	from := &net.UDPAddr{IP: net.IPv4(127, 0, 0, last)}
	conn, err := net.DialUDP("udp", from, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return asker{&dns.Client{Timeout: time.Second, Dialer: &net.Dialer{LocalAddr: from}}, conn}
}

// TestSlowUpstream: 20,000 queries of eight pods for names whose nameserver says nothing, as fast as
// the server takes them. Meanwhile names of the cluster are answered, to those pods and to others: a
// quarter of what may be in flight is theirs. What is too much is refused at once, so that the
// server does not grow, and when it is over nothing is left.
func TestSlowUpstream(t *testing.T) {
	_, address := started(t, config(t, ""))
	const pods, each = 8, 2500
	var askers []asker
	for i := range pods {
		askers = append(askers, newAsker(t, byte(2+i), address))
	}
	other := newAsker(t, 100, address)
	knows := func(a asker) (tries int) {
		t.Helper()
		for tries = 1; tries <= 5; tries++ {
			q := new(dns.Msg)
			q.SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA)
			m, _, err := a.Exchange(q, address)
			if err != nil {
				continue // a datagram was lost: so many come at once
			}
			if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 {
				t.Fatalf("a name of the cluster is answered with %s", dns.RcodeToString[m.Rcode])
			}
			return tries
		}
		t.Fatal("a name of the cluster is not answered")
		return tries
	}
	knows(other)
	goroutines, heap := runtime.NumGoroutine(), heapOf()
	var refused, sent atomic.Int64
	var flood sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i, a := range askers {
		refusals := make(chan bool, 4*each)
		flood.Go(func() { // reads until the socket is closed
			m := new(dns.Msg)
			for b := make([]byte, 4096); ; {
				n, err := a.conn.Read(b)
				if err != nil {
					return
				}
				if m.Unpack(b[:n]) == nil && m.Rcode == dns.RcodeRefused {
					refused.Add(1)
					refusals <- true
				}
			}
		})
		flood.Go(func() {
			q := new(dns.Msg)
			patience := time.NewTimer(0)
			defer patience.Stop()
			for n := 0; n < 4*each && ctx.Err() == nil; n++ { // until all was asked
				q.SetQuestion(fmt.Sprintf("a%d-%d.silent.", i, n), dns.TypeA)
				raw, err := q.Pack()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := a.conn.Write(raw); err == nil {
					sent.Add(1)
				}
				if n < 250 {
					continue // these wait for the nameserver
				}
				patience.Reset(20 * time.Millisecond)
				select { // the server has seen this one, or one of the two is lost
				case <-refusals:
				case <-patience.C:
				}
			}
		})
	}
	end := func() {
		cancel()
		for _, a := range askers {
			a.conn.Close()
		}
		flood.Wait()
	}
	defer end()
	most, tries, asked := 0, 0, 0
	for deadline := time.Now().Add(time.Minute); refused.Load() < pods*each/2 || asked < 100; asked += 2 {
		for asked == 0 && refused.Load() == 0 && time.Now().Before(deadline) {
			runtime.Gosched() // until as many wait as may
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d queries of %d are refused", refused.Load(), sent.Load())
		}
		tries += knows(askers[asked%pods]) + knows(other)
		most = max(most, runtime.NumGoroutine())
	}
	// Some goroutines for each query that waits.
	if least, limit := goroutines+500, goroutines+3*1000; most < least || most > limit {
		t.Errorf("%d goroutines, want %d to %d", most, least, limit)
	}
	if grown := heapOf() - heap; grown > 64<<20 {
		t.Errorf("it grew by %d bytes", grown)
	}
	if tries > 2*asked {
		t.Errorf("%d names of the cluster took %d tries", asked, tries)
	}
	t.Logf("%d queries sent, %d refused; %d names of the cluster in %d tries, %d goroutines at most", sent.Load(), refused.Load(), asked, tries, most)
	end()
	left := 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); runtime.Gosched() {
		if left = runtime.NumGoroutine(); left <= goroutines+10 { // some of sockets that are kept
			return
		}
	}
	t.Errorf("%d goroutines before, and %d afterwards", goroutines, left)
}

func heapOf() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
