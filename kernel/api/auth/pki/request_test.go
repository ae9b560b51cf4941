package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// asked is a request as its owner sends it.
func asked(t *testing.T, template x509.CertificateRequest) *x509.CertificateRequest {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func forClient(r *x509.CertificateRequest) Request {
	now := time.Now()
	return Request{CSR: r, UID: "0d9c8f04-0000-4000-8000-000000000001", KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour)}
}

func parsed(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(certPEM)
	if block == nil || len(rest) > 0 {
		t.Fatalf("not one block of PEM: %s", certPEM)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// What is signed is what was asked for and no authority; it is in the book, from which
// it can be revoked.
func TestSignRequest(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Config{Dir: dir})
	template := x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "jane", Organization: []string{"devs", "ops"}}, DNSNames: []string{"jane.example.com"},
		// Who asks to be an authority is none.
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}
	r := forClient(asked(t, template))
	certPEM, err := p.SignRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	cert := parsed(t, certPEM)
	if cert.Subject.CommonName != "jane" || !slices.Equal(sorted(cert.Subject.Organization), []string{"devs", "ops"}) || !slices.Equal(cert.DNSNames, template.DNSNames) ||
		cert.IsCA || !cert.BasicConstraintsValid || cert.KeyUsage != r.KeyUsage || !slices.Equal(cert.ExtKeyUsage, r.ExtKeyUsage) ||
		cert.NotAfter.Sub(cert.NotBefore) != time.Hour+time.Minute || cert.CheckSignatureFrom(p.ca) != nil {
		t.Errorf("signed %+v", cert)
	}
	d := directory(t, dir)
	if got := states(t, d, "csr-"+r.UID); !slices.Equal(got, []string{"issued"}) {
		t.Errorf("the book says %q", got)
	}
	var find Revocation
	if err := d.Find(&find, fmt.Sprintf("%x", cert.SerialNumber)[:12]); err != nil {
		t.Fatal(err)
	}
	if _, renewed, err := d.Revoke(find); err != nil || len(renewed) != 0 {
		t.Errorf("revoked: %v, %v", renewed, err)
	}
	if got := states(t, d, "csr-"+r.UID); !slices.Equal(got, []string{"revoked"}) {
		t.Errorf("the book says %q", got)
	}
	// None of them lives longer than the authority.
	r.NotAfter = p.ca.NotAfter.Add(time.Hour)
	if certPEM, err = p.SignRequest(r); err != nil || !parsed(t, certPEM).NotAfter.Equal(p.ca.NotAfter) {
		t.Errorf("%v, or it outlives its authority", err)
	}
}

// What no request gets, whoever approved it.
func TestRefusedRequests(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Config{Dir: dir, ServiceIP: net.IPv4(10, 96, 0, 1), AdvertiseIPs: []net.IP{net.IPv4(192, 0, 2, 10)}, Hostnames: []string{"api.example.com"}})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	server := func(dns ...string) Request {
		r := forClient(asked(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}, DNSNames: dns}))
		r.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		return r
	}
	at := func(ip net.IP) Request {
		r := server()
		r.CSR = asked(t, x509.CertificateRequest{Subject: r.CSR.Subject, DNSNames: []string{"n"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 11), ip}})
		return r
	}
	any, none := server("kubernetes"), server("kubernetes.default")
	any.ExtKeyUsage, none.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, nil
	masters := forClient(asked(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "m", Organization: []string{"a", "system:masters"}}}))
	forged := forClient(asked(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "m"}}))
	forged.CSR.Signature[7] ^= 1
	large := server(slices.Repeat([]string{strings.Repeat("a", 60) + ".example.com"}, 1000)...)
	before, err := os.ReadDir(filepath.Join(dir, issuedDirectory))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		r    Request
		want string
	}{
		"system:masters":       {masters, "a certificate of group system:masters is not issued by request"},
		"not its key":          {forged, "unable to verify certificate request signature"},
		"large":                {large, "want at most 65536"},
		"the service":          {server("n", "kubernetes.default.svc"), "kubernetes.default.svc, which is the API server"},
		"in capitals":          {server("Kubernetes.Default.SVC."), "which is the API server"},
		"its full name":        {server("kubernetes.default.svc.cluster.local"), "which is the API server"},
		"a wildcard":           {server("*.default.svc"), "which is the API server"},
		"its cluster IP":       {at(net.IPv4(10, 96, 0, 1)), "10.96.0.1, which is the API server"},
		"its address":          {at(net.IPv4(192, 0, 2, 10)), "192.0.2.10, which is the API server"},
		"its address, as text": {server("n", "192.0.2.10"), "192.0.2.10, which is the API server"},
		"its machine":          {server("n", strings.ToUpper(host)), "which is the API server"},
		"a further name":       {server("api.example.com."), "api.example.com, which is the API server"},
		"each by its name":     {server("*.example.com"), "api.example.com, which is the API server"},
		"each machine":         {server("n", "localhost"), "localhost, which is the API server"},
		"loopback":             {at(net.IPv6loopback), "::1, which is the API server"},
		"for any use":          {any, "which is the API server"},
		"for no use in part":   {none, "which is the API server"},
	} {
		_, err := p.SignRequest(tt.r)
		if why := (*Refusal)(nil); !errors.As(err, &why) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	after, err := os.ReadDir(filepath.Join(dir, issuedDirectory))
	if err != nil || len(after) != len(before) {
		t.Errorf("%d records, then %d: %v", len(before), len(after), err)
	}
	for name, r := range map[string]Request{"a node": server("n", "default.svc"), "a node by its address": at(net.IPv4(192, 0, 2, 12)), "another service": server("kubernetes.other.svc")} {
		if _, err := p.SignRequest(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The kernel's own node is on that machine, and asks nobody.
	if _, serving, err := p.Node(host, []net.IP{net.IPv4(192, 0, 2, 10)}, host); err != nil || serving.Pair().Cert.VerifyHostname("192.0.2.10") != nil {
		t.Errorf("the kernel's own node: %v", err)
	}
	// A client's certificate serves nobody, so its names are free.
	if _, err := p.SignRequest(forClient(server("kubernetes.default.svc").CSR)); err != nil {
		t.Error(err)
	}
}

// A UID that is none names no file elsewhere.
func TestRecordOfStrangeUID(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Config{Dir: dir})
	for _, uid := range []string{"../../evil", "", "a/b", strings.Repeat("a", 300)} {
		r := forClient(asked(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "m"}}))
		r.UID = uid
		if _, err := p.SignRequest(r); err != nil {
			t.Errorf("%q: %v", uid, err)
		}
	}
	if got := states(t, directory(t, dir), "csr-unknown"); len(got) != 4 {
		t.Errorf("the book says %q", got)
	}
}

// What cannot be recorded is not signed, and a full book is made room in by time.
func TestNoRoomForRecords(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	p := open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	sign := func() error {
		r := forClient(asked(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "m"}}))
		r.NotBefore, r.NotAfter = now, now.Add(time.Minute)
		_, err := p.SignRequest(r)
		return err
	}
	if err := sign(); err != nil {
		t.Fatal(err)
	}
	p.records.requested = mostRequested
	if err := sign(); err == nil || !strings.Contains(err.Error(), "find out who asks for so many") {
		t.Errorf("signed with a full book: %v", err)
	}
	// The one in it expires: where there is no room, that is seen before the hour is over.
	if now = now.Add(pruneFull + time.Second); now.Sub(p.records.pruned) >= pruneEvery {
		t.Fatal("the book would be read in any case")
	}
	if err := sign(); err != nil {
		t.Error(err)
	}
	if p.records.requested != 1 {
		t.Errorf("%d are counted, want the one that has not expired", p.records.requested)
	}
	issued := filepath.Join(dir, issuedDirectory)
	if err := errors.Join(os.RemoveAll(issued), os.WriteFile(issued, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := sign(); err == nil {
		t.Error("signed what is not in the book")
	}
}

// One who asks leaves room for others: for the same name, for other names, and for those who
// renew what is theirs. Records are counted by who asked after a restart, too.
func TestRoomOfOneRequestor(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	opened := func() *PKI { return open(t, Config{Dir: dir, Now: func() time.Time { return now }}) }
	p := opened()
	const token, another, node = "system:bootstrap:abcdef", "system:bootstrap:zzzzzz", "system:node:n"
	sign := func(requestor, name string) error {
		r := forClient(asked(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}))
		r.Requestor, r.NotBefore, r.NotAfter = requestor, now, now.Add(2*time.Hour)
		_, err := p.SignRequest(r)
		return err
	}
	wants := func(what string, err error, want string) {
		t.Helper()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	hostile := "x\"\n-----BEGIN CERTIFICATE-----\n" + strings.Repeat("y", 2*longestRequestor)
	for _, requestor := range []string{token, another, node, hostile} {
		wants("at first", sign(requestor, node), "")
	}
	p = opened()
	wants("after a restart", sign(token, "system:node:m"), "")
	for who, count := range map[string]int{token: 2, another: 1, node: 1, short(hostile): 1} {
		if got := p.records.byRequestor[who]; got != count {
			t.Errorf("%d are counted for %q, want %d", got, who, count)
		}
	}
	if p.records.requested != 5 || p.records.forName[[2]string{token, node}] != 1 {
		t.Errorf("counted %+v", p.records.forName)
	}
	refused := func(what string, err error, want string) {
		t.Helper()
		if why := (*Refusal)(nil); !errors.As(err, &why) || !strings.Contains(why.Error(), want) || strings.Contains(why.Error(), dir) {
			t.Errorf("%s: %v, want a refusal with %q and no path", what, err, want)
		}
	}
	p.records.forName[[2]string{token, node}] = mostForName
	refused("the same name", sign(token, node), `certificates of "system:node:n"`)
	wants("another name", sign(token, "system:node:o"), "")
	wants("the node itself", sign(node, node), "")
	p.records.forName[[2]string{node, node}] = mostForOwn
	refused("its own name too often", sign(node, node), `certificates of "system:node:n"`)
	p.records.forName[[2]string{node, node}] = 1
	p.records.byRequestor[token] = mostByToken
	refused("any name", sign(token, "system:node:p"), "delete its bootstrap token")
	wants("another token", sign(another, "system:node:p"), "")
	// The nodes that one token makes leave room, however often they ask.
	if all := mostByToken * (1 + mostForOwn); all > mostRequested-keptForOwn {
		t.Errorf("one token fills %d records", all)
	}
	p.records.requested = mostRequested - keptForOwn
	wants("the last are for renewals", sign(another, "system:node:q"), "find out who asks for so many")
	wants("a node that renews", sign(node, node), "")
	p.records.requested = mostRequested
	wants("a full book", sign(node, node), "find out who asks for so many")
	if now = now.Add(3 * time.Hour); sign(token, node) != nil || p.records.byRequestor[token] != 1 {
		t.Errorf("expired certificates are counted: %+v", p.records.byRequestor)
	}
}
