package layer2

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// nodeLink is the link of one address of the node. Without an address it is nil: nothing comes
// from it. The loop alone calls its methods.
type nodeLink struct {
	ip      netip.Addr // the node's
	place   place      // as found last
	session *session   // nil: it is not open
	failed  string     // the fault that the loop meets now, if any
	says    string     // for the status
	log     *slog.Logger
}

// linksOf are those of a node's first address of each family.
func linksOf(texts []string, log *slog.Logger) (four, six *nodeLink) {
	for _, text := range texts {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.IsLinkLocalUnicast() {
			continue
		}
		switch ip = ip.Unmap(); {
		case ip.Is4() && four == nil:
			four = &nodeLink{ip: ip, log: log}
		case ip.Is6() && six == nil:
			six = &nodeLink{ip: ip, log: log}
		}
	}
	return four, six
}

// opened is a link with its socket.
type opened interface {
	link
	read(ctx context.Context, out chan<- heard) error
	Close() error
}

// session is the time for which one link is open.
type session struct {
	place  place
	claims *claims
	heard  chan heard
	failed chan error
	end    func()
}

// find looks where the node's address is, and says whether it is somewhere.
func (l *nodeLink) find() bool {
	if l == nil {
		return false
	}
	at, err := find(l.ip)
	if err != nil {
		l.fault(err)
		l.close()
		return false
	}
	if l.session != nil && !l.session.place.same(at) {
		l.close()
	}
	l.place = at
	return true
}

// follow takes in what is known of the cluster.
func (l *nodeLink) follow(ctx context.Context, node string, c cluster, t teller) {
	network, name := l.place.network, l.place.ifi.Name
	if len(addressesOn(network, c.services)) == 0 {
		l.works(fmt.Sprintf("no load balancer has an address of %s on %s", network, name))
		l.close()
		return
	}
	if l.session == nil {
		if err := l.open(ctx, t); err != nil {
			l.fault(err)
			return
		}
	}
	p := planOf(node, network, c)
	l.session.claims.follow(p, time.Now())
	l.works(fmt.Sprintf("answers for %d addresses of %s on %s", len(p.hold), network, name))
}

func (l *nodeLink) open(ctx context.Context, t teller) error {
	var link opened
	var err error
	if l.ip.Is4() {
		link, err = openARP(&l.place.ifi, l.ip)
	} else {
		link, err = openNDP(&l.place.ifi, l.ip)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &session{place: l.place, claims: newClaims(link, l.place.ifi.HardwareAddr, t, l.log), heard: make(chan heard, mostHeard), failed: make(chan error, 1)}
	var reader sync.WaitGroup
	reader.Go(func() {
		if err := link.read(ctx, s.heard); err != nil {
			s.failed <- err
		}
	})
	s.end = func() {
		cancel()
		if err := link.Close(); err != nil {
			l.log.Warn("a socket of a link was not closed", "interface", s.place.ifi.Name, "error", err)
		}
		reader.Wait()
	}
	l.session = s
	return nil
}

// close gives all addresses up.
func (l *nodeLink) close() {
	if l != nil && l.session != nil {
		l.session.claims.follow(plan{}, time.Now())
		l.session.end()
		l.session = nil
	}
}

// packets and faults are nil while the link is not open: nothing comes then.
func (l *nodeLink) packets() <-chan heard {
	if l == nil || l.session == nil {
		return nil
	}
	return l.session.heard
}

func (l *nodeLink) faults() <-chan error {
	if l == nil || l.session == nil {
		return nil
	}
	return l.session.failed
}

// due does what is due, and returns when it has to be called again; zero: after a change.
func (l *nodeLink) due() time.Time {
	if l == nil || l.session == nil {
		return time.Time{}
	}
	return l.session.claims.due(time.Now())
}

// fault is called for what the loop tries again by itself. It is logged once.
func (l *nodeLink) fault(err error) {
	if l.failed != err.Error() {
		l.failed = err.Error()
		l.log.Warn("addresses of load balancers are not announced; it is tried again", "error", err)
	}
	l.says = "not announced: " + l.failed
}

func (l *nodeLink) works(message string) {
	if l.failed != "" {
		l.failed = ""
		l.log.Info("addresses of load balancers are announced again", "node", l.ip)
	}
	l.says = message
}
