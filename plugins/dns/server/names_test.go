package server

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counted sums a counter of this process over its labels. With an address, only what the server
// there counted: another test's server may still be ending.
func counted(t *testing.T, name, address string) (sum float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				if address == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
					return l.GetName() == "server" && strings.HasSuffix(l.GetValue(), "//"+address)
				}) {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// TestOddNames: names that no service or pod can have, and questions that no resolver asks, get an
// answer each, which gives no address. All are counted, none makes the server panic, and names
// that are right are answered afterwards.
func TestOddNames(t *testing.T) {
	_, address := started(t, config(t, ""))
	const domain = "cluster.local."
	long := strings.Repeat(strings.Repeat("a", 63)+".", 3)
	names := []string{
		".", domain, "svc." + domain, "pod." + domain, "*." + domain, "*.*.svc." + domain, "*.default.svc." + domain,
		`\000.default.svc.` + domain, `a\.b.default.svc.` + domain, `\255\254.default.pod.` + domain, `kubernetes\032.default.svc.` + domain,
		"999-999-999-999.default.pod." + domain, "1-2-3.default.pod." + domain, "-.default.pod." + domain, "1-2-3-4-5.default.pod." + domain,
		"0x7f-0-0-1.default.pod." + domain, "1-2-3-4.default.pod.x." + domain,
		"_.kubernetes.default.svc." + domain, "_https.kubernetes.default.svc." + domain,
		"_https._tcp._udp.kubernetes.default.svc." + domain, "a.b.c.d.e.f.default.svc." + domain, "default.svc.svc." + domain, "svc.svc.svc." + domain,
		long + "default.svc." + domain, long + "kubernetes.default.pod.x." + domain, "xn--kubernetes-.default.svc." + domain,
		"in-addr.arpa.", "1.in-addr.arpa.", "300.0.3.10.in-addr.arpa.", "a.b.c.d.in-addr.arpa.", "1.2.3.4.5.6.in-addr.arpa.", "g.ip6.arpa.", strings.Repeat("1.", 33) + "ip6.arpa.",
	}
	kinds := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeANY, dns.TypeNULL, dns.TypeOPT, 0, 65535}
	panics := counted(t, "coredns_panics_total", "")
	asked := 1 // by the start of the server
	client := dns.Client{Timeout: time.Minute}
	ask := func(what string, q *dns.Msg) *dns.Msg {
		t.Helper()
		a, _, err := client.Exchange(q, address)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if a.Id != q.Id || !a.Response {
			t.Errorf("%s: answered with %v", what, a)
		}
		asked++
		return a
	}
	for _, name := range names {
		for _, kind := range kinds {
			what := fmt.Sprintf("%s %s", name, dns.Type(kind))
			q := new(dns.Msg)
			q.SetQuestion(name, kind)
			for _, rr := range ask(what, q).Answer {
				switch rr.(type) {
				case *dns.A, *dns.AAAA, *dns.SRV:
					t.Errorf("%s: %s", what, rr)
				}
			}
		}
	}
	right := func(change func(*dns.Msg)) *dns.Msg {
		q := new(dns.Msg)
		q.SetQuestion("kubernetes.default.svc."+domain, dns.TypeA)
		if change != nil {
			change(q)
		}
		return q
	}
	for what, x := range map[string]struct {
		change func(*dns.Msg)
		rcode  int
		counts bool // it is a question, and counted as one
	}{
		"class of Chaos":        {func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeSuccess, true},
		"class of nobody":       {func(q *dns.Msg) { q.Question[0].Qclass = 4711 }, dns.RcodeSuccess, true},
		"version of EDNS":       {func(q *dns.Msg) { q.SetEdns0(4096, false); q.IsEdns0().SetVersion(9) }, dns.RcodeBadVers, false},
		"no room for an answer": {func(q *dns.Msg) { q.SetEdns0(0, true) }, dns.RcodeSuccess, true},
		"update":                {func(q *dns.Msg) { q.Opcode = dns.OpcodeUpdate }, dns.RcodeNotImplemented, false},
		"status":                {func(q *dns.Msg) { q.Opcode = dns.OpcodeStatus }, dns.RcodeNotImplemented, false},
		"two questions":         {func(q *dns.Msg) { q.Question = append(q.Question, q.Question[0]) }, dns.RcodeFormatError, false},
		"a question and its answers": {func(q *dns.Msg) {
			q.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeA, Class: dns.ClassINET}}}
		}, dns.RcodeSuccess, true},
	} {
		a := ask(what, right(x.change))
		if a.Rcode != x.rcode {
			t.Errorf("%s: %s, want %s", what, dns.RcodeToString[a.Rcode], dns.RcodeToString[x.rcode])
		}
		if !x.counts {
			asked--
		}
	}
	if a := ask("afterwards", right(nil)); a.Rcode != dns.RcodeSuccess || len(a.Answer) != 1 {
		t.Errorf("afterwards: %v", a)
	}
	if got := counted(t, "coredns_panics_total", "") - panics; got != 0 {
		t.Errorf("the server panicked %v times", got)
	}
	// A question is counted when its answer has left.
	deadline := time.Now().Add(time.Minute)
	for counted(t, "coredns_dns_requests_total", address) < float64(asked) && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if got := counted(t, "coredns_dns_requests_total", address); got != float64(asked) {
		t.Errorf("%v questions are counted, of %d", got, asked)
	}
}
