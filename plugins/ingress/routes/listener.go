package routes

import "strings"

// Listener is one of the Gateways of a namespace: a port, and the hosts that it is for.
type Listener struct {
	// Namespace of the Gateway.
	Namespace string
	Port      int
	// Hostname is empty for all, or begins with "*." for all names below.
	Hostname string
	// Secrets of certificates; none: it is one of HTTP.
	Secrets []SecretName

	hosts     map[string]*host
	wildcards map[string]*host // by what follows the star and its dot
	other     *host
}

// Add gives a host rules. It is empty for all, or begins with "*.".
func (l *Listener) Add(name string, rules ...*Rule) {
	h := l.host(name)
	for _, r := range rules {
		h.take(r)
	}
}

func (l *Listener) host(name string) *host {
	if l.hosts == nil {
		l.hosts, l.wildcards = map[string]*host{}, map[string]*host{}
	}
	if name == "" {
		if l.other == nil {
			l.other = newHost()
		}
		return l.other
	}
	in := l.hosts
	if parent, ok := strings.CutPrefix(name, "*."); ok {
		in, name = l.wildcards, parent
	}
	if in[name] == nil {
		in[name] = newHost()
	}
	return in[name]
}

func (l *Listener) sort() {
	for _, h := range l.hosts {
		h.sort()
	}
	for _, h := range l.wildcards {
		h.sort()
	}
	if l.other != nil {
		l.other.sort()
	}
}

// How exactly a rule names a host.
const (
	byNothing = iota
	byAll
	byWildcard
	byName
)

// find returns the rule of a request, and how exactly its host is named. Rules of a less
// exact host count where those of a more exact one have none.
func (l *Listener) find(q *Request) (*Rule, int) {
	if h := l.hosts[q.Host]; h != nil {
		if r := h.find(q); r != nil {
			return r, byName
		}
	}
	if len(q.Host) <= maxName && len(l.wildcards) > 0 {
		for _, parent, ok := strings.Cut(q.Host, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
			if h := l.wildcards[parent]; h != nil {
				if r := h.find(q); r != nil {
					return r, byWildcard
				}
			}
		}
	}
	if l.other != nil {
		if r := l.other.find(q); r != nil {
			return r, byAll
		}
	}
	return nil, byNothing
}

// port has the listeners of one.
type port struct {
	hosts     map[string]*Listener
	wildcards map[string]*Listener
	others    map[string]*Listener // by namespace: those for all hosts
}

// Attach gives the table the listeners of Gateways; once, before the table is used. Two of
// one port and hostname are of one namespace, and must be one Listener.
func (t *Table) Attach(all []*Listener) {
	t.ports = map[int]*port{}
	for _, l := range all {
		l.sort()
		p := t.ports[l.Port]
		if p == nil {
			p = &port{hosts: map[string]*Listener{}, wildcards: map[string]*Listener{}, others: map[string]*Listener{}}
			t.ports[l.Port] = p
		}
		parent, wildcard := strings.CutPrefix(l.Hostname, "*.")
		switch {
		case l.Hostname == "":
			p.others[l.Namespace] = l
		case wildcard:
			p.wildcards[parent] = l
		default:
			p.hosts[l.Hostname] = l
		}
	}
}

// Owns reports whether the Gateways of a namespace have a host, as Claims gave it.
func (t *Table) Owns(namespace, name string) bool { return t.owners[name] == namespace }

// listener returns that of a port and a host: the most exact one. One of a namespace that
// does not have the host is passed over.
func (t *Table) listener(at int, name string) *Listener {
	p := t.ports[at]
	if p == nil {
		return nil
	}
	if l := p.hosts[name]; l != nil {
		return l
	}
	owner := t.owner(name)
	if len(name) <= maxName && len(p.wildcards) > 0 {
		for _, parent, ok := strings.Cut(name, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
			if l := p.wildcards[parent]; l != nil && (owner == "" || owner == l.Namespace) {
				return l
			}
		}
	}
	if owner == "" {
		owner = t.owners[""]
	}
	if owner == "" && len(p.others) == 1 {
		for _, only := range p.others {
			return only // no namespace owns the host, and this one alone has such a listener
		}
	}
	return p.others[owner]
}

// Route returns the rule of a request, or nil. Between an Ingress and a Gateway the one that
// names the host more exactly counts, and of two alike the Gateway. A request that too many
// patterns would have to be tried at has none: a rule that comes later is not for it.
func (t *Table) Route(q *Request) *Rule {
	q.Path = Resolved(q.Path)
	if l := t.listener(q.Port, q.Host); l != nil {
		r, exactly := l.find(q)
		if q.spent {
			return nil
		}
		if r != nil && exactly >= t.namedByIngress(q.Host) {
			return r
		}
	}
	return t.ofIngress(q.Host, q)
}

// namedByIngress is how exactly an Ingress names a host.
func (t *Table) namedByIngress(name string) int {
	if t.hosts[name] != nil {
		return byName
	}
	if _, parent, ok := strings.Cut(name, "."); ok && t.wildcards[parent] != nil {
		return byWildcard
	}
	return byNothing
}

// Certificates returns the Secrets of a host at a port: those of the Gateway's listener, or
// the one of an Ingress. key is the same for hosts that are served with the same.
func (t *Table) Certificates(at int, name string) (secrets []SecretName, key any) {
	l := t.listener(at, name)
	s, ok := t.Secret(name)
	switch {
	case l != nil && len(l.Secrets) > 0 && (!ok || l.Hostname != "" && (l.Hostname == name || t.secrets[name] != s)):
		return l.Secrets, l
	case ok:
		return []SecretName{s}, s
	}
	return nil, nil
}
