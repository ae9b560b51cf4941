package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"pintle.dev/pintle/kernel/secretfile"
)

const (
	// pruneEvery is how often the folder is read for what has expired, pruneFull how often
	// it is while there is no room.
	pruneEvery = time.Hour
	pruneFull  = time.Minute
	// mostRequested bounds the records of requests that have not expired, a file each. The
	// last of them are for identities that ask for their own, as nodes that renew theirs.
	mostRequested = 100_000
	keptForOwn    = 10_000
	// mostByRequestor is how many of them one user may have asked for, mostForName for how
	// many of one subject. So a holder of a bootstrap token leaves room for others.
	mostByRequestor = 10_000
	mostForName     = 1_000
	// mostByToken and mostForOwn are how many a bootstrap token asked for, and a user for its
	// own name: so the nodes that a token makes cannot fill the book by renewals either.
	mostByToken = 2_000
	mostForOwn  = 20
	// longestRequestor is how many bytes of a user's name are recorded.
	longestRequestor = 256
)

// requestorLine begins a record that says who asked. Readers of PEM skip what is before it.
const requestorLine = "requestor: "

// asRecord is a certificate of a request, as it is recorded.
func asRecord(requestor string, certPEM []byte) []byte {
	return append([]byte(requestorLine+strconv.Quote(short(requestor))+"\n"), certPEM...)
}

func requestorOf(record []byte) string {
	line, _, _ := bytes.Cut(record, []byte("\n"))
	quoted, ok := bytes.CutPrefix(line, []byte(requestorLine))
	if !ok {
		return ""
	}
	text, err := strconv.Unquote(string(quoted))
	if err != nil {
		return ""
	}
	return text
}

func short(requestor string) string { return requestor[:min(len(requestor), longestRequestor)] }

// record keeps a certificate among those issued, and drops those that expired.
func (p *PKI) record(name string, cert *x509.Certificate, data []byte) error {
	if err := secretfile.MakeDirectory(p.path(issuedDirectory)); err != nil {
		return err
	}
	if err := secretfile.Write(p.issuedFile(name, cert), data, 0o600); err != nil {
		return err
	}
	return p.records.prune(p, pruneEvery)
}

// records is what is known of the folder without reading it.
type records struct {
	mu        sync.Mutex
	pruned    time.Time // when those that expired were dropped last
	requested int       // those of requests
	// byRequestor has them by who asked, forName by that and the subject's common name.
	byRequestor map[string]int
	forName     map[[2]string]int
}

// prune drops what has expired, unless it has since a moment ago: it reads every file.
func (r *records) prune(p *PKI, every time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := p.cfg.Now()
	if !r.pruned.IsZero() && now.Sub(r.pruned) < every {
		return nil
	}
	former, err := p.issued()
	r.requested, r.byRequestor, r.forName = 0, map[string]int{}, map[[2]string]int{}
	for _, c := range former {
		if now.After(c.Cert.NotAfter) {
			// Another process may do the same.
			if e := os.Remove(p.issuedFile(c.Name, c.Cert)); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		} else if byRequest(c.Name) {
			r.count(c.requestor, c.Cert.Subject.CommonName)
		}
	}
	r.pruned = now
	return err
}

func (r *records) count(requestor, name string) {
	r.requested++
	r.byRequestor[requestor]++
	r.forName[[2]string{requestor, name}]++
}

// room makes sure that another certificate can be recorded. The error is a *Refusal where its
// requestor has too many.
func (p *PKI) room(requestor, name string) error {
	requestor = short(requestor)
	var err error
	// Where there is none, what has expired since is looked for before the hour is over.
	for _, every := range []time.Duration{pruneEvery, pruneFull} {
		if err := p.records.prune(p, every); err != nil {
			return fmt.Errorf("records of issued certificates in %s: %w", p.path(issuedDirectory), err)
		}
		if err = p.records.take(requestor, name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("records of issued certificates in %s: %w", p.path(issuedDirectory), err)
}

// take counts one more, if there is room for it.
func (r *records) take(requestor, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	most, forName, byRequestor := mostRequested-keptForOwn, mostForName, mostByRequestor
	if requestor == name {
		most, forName = mostRequested, mostForOwn
	}
	if strings.HasPrefix(requestor, bootstrapapi.BootstrapUserPrefix) {
		byRequestor = mostByToken
	}
	switch {
	case r.byRequestor[requestor] >= byRequestor:
		return refuse("%q has asked for %d certificates that have not expired, and is given no more: delete its bootstrap token if it is one's, or wait until some expire", requestor, r.byRequestor[requestor])
	case r.forName[[2]string{requestor, name}] >= forName:
		return refuse("%q has asked for %d certificates of %q that have not expired, and is given no more: wait until some expire, and ask for shorter ones (spec.expirationSeconds)", requestor, r.forName[[2]string{requestor, name}], name)
	case r.requested >= most:
		return fmt.Errorf("there are %d certificates of requests that have not expired, want less than %d: find out who asks for so many; shorten auth.clusterSigningDuration", r.requested, most)
	}
	r.count(requestor, name)
	return nil
}
