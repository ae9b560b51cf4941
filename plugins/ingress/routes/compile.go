package routes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
)

// Reasons of problems, as events have them.
const (
	HostConflict       = "HostConflict"
	PathConflict       = "PathConflict"
	TooManyPaths       = "TooManyPaths"
	TooManySecrets     = "TooManySecrets"
	TooManyEndpoints   = "TooManyEndpoints"
	MissingService     = "MissingService"
	MissingServicePort = "MissingServicePort"
	UnsupportedBackend = "UnsupportedBackend"
	MissingSecret      = "MissingSecret"
	InvalidSecret      = "InvalidSecret"
)

// MaxSecrets of one namespace are read, since each is read every few seconds.
const MaxSecrets = 100

// Problem is what of an Ingress is not done, and why.
type Problem struct {
	Ingress *networkingv1.Ingress
	Reason  string
	Message string
}

// Certificate is what an Ingress wants served with a Secret.
type Certificate struct {
	Ingress *networkingv1.Ingress
	Secret  SecretName
	Hosts   []string
}

// Input is what a table is made of.
type Input struct {
	// Ingresses that are served, in any order.
	Ingresses []*networkingv1.Ingress
	// Owners are those of the table before.
	Owners map[string]string
	// Service returns nil where there is none. Slices are those of a Service.
	Service func(namespace, name string) *corev1.Service
	Slices  func(namespace, name string) []*discoveryv1.EndpointSlice
	// MaxPaths of one namespace.
	MaxPaths int
	// Claims are the hosts that Gateways want, the oldest first. They and the Ingresses are
	// given hosts by age.
	Claims []Claim
}

// Claim is a host that the Gateways of a namespace want. A wildcard has all names below it.
type Claim struct {
	Host, Namespace string
	// Since is the age of the Gateway, or of its route where that is younger.
	Since time.Time
}

// Output is a table and what is to be said about it.
type Output struct {
	Table *Table
	// Served are the Ingresses that it is made of.
	Served       []*networkingv1.Ingress
	Certificates []Certificate
	Problems     []Problem
	// Backend returns that of a port of a Service, for a route of the namespace payer; nil
	// with a reason where there is none. grpc says how it is spoken to unless the port does.
	Backend func(payer, namespace, name string, port int32, grpc bool) (b *Backend, reason string)
	// MayRead counts a Secret among those that a namespace has read, its own or another's.
	MayRead func(payer string, s SecretName) bool
}

// Compile makes a table.
func Compile(in Input) Output {
	c := &compiler{Input: in, table: &Table{
		hosts: map[string]*host{}, wildcards: map[string]*host{}, secrets: map[string]SecretName{},
		owners: map[string]string{}, services: map[SecretName]bool{}, deep: map[string]bool{},
	}, backends: map[backendKey]*Backend{}, paths: map[string]int{}, full: map[*networkingv1.Ingress]bool{}, looks: map[string]*int{}, secrets: map[string]map[SecretName]bool{}}
	ordered := slices.Clone(in.Ingresses)
	slices.SortFunc(ordered, older)
	c.keepOwners(ordered)
	claims := in.Claims
	for _, i := range ordered {
		for len(claims) > 0 && !i.CreationTimestamp.Time.Before(claims[0].Since) {
			c.want(claims[0])
			claims = claims[1:]
		}
		c.ingress(i)
	}
	for _, claim := range claims {
		c.want(claim)
	}
	return Output{
		Table: c.table, Served: in.Ingresses, Certificates: c.certificates, Problems: c.problems,
		Backend: c.ofRoute, MayRead: c.mayRead,
	}
}

// ofRoute is Output.Backend.
func (c *compiler) ofRoute(payer, namespace, name string, port int32, grpc bool) (*Backend, string) {
	b, reason := c.service(backendKey{SecretName{namespace, name}, networkingv1.ServiceBackendPort{Number: port}, grpc, payer})
	if reason != "" && reason != TooManyEndpoints {
		return nil, reason
	}
	return b, ""
}

// older orders by age. Of two of one second the name decides.
func older(a, b *networkingv1.Ingress) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

type backendKey struct {
	SecretName
	port networkingv1.ServiceBackendPort
	grpc bool
	// payer has a Backend of its own: what it may not look at is not missing for others.
	payer string
}

type compiler struct {
	Input
	table        *Table
	backends     map[backendKey]*Backend
	paths        map[string]int // of a namespace
	full         map[*networkingv1.Ingress]bool
	looks        map[string]*int                // endpoints that a namespace may still have looked at
	secrets      map[string]map[SecretName]bool // of a namespace
	certificates []Certificate
	problems     []Problem
}

func (c *compiler) problem(i *networkingv1.Ingress, reason, format string, args ...any) {
	c.problems = append(c.problems, Problem{i, reason, fmt.Sprintf(format, args...)})
}

// hostsOf are the hosts that an Ingress names; "" stands for all others.
func hostsOf(i *networkingv1.Ingress) []string {
	var out []string
	seen := map[string]bool{}
	add := func(name string) {
		if name = strings.ToLower(name); !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	if i.Spec.DefaultBackend != nil {
		add("")
	}
	for j := range i.Spec.Rules {
		add(i.Spec.Rules[j].Host)
	}
	for j := range i.Spec.TLS {
		for _, name := range i.Spec.TLS[j].Hosts {
			add(name)
		}
	}
	return out
}

// keepOwners leaves each host to the namespace that had it, as long as it names it: who
// writes another's host into an old Ingress does not get it.
func (c *compiler) keepOwners(all []*networkingv1.Ingress) {
	for _, i := range all {
		for _, name := range hostsOf(i) {
			if c.Owners[name] == i.Namespace {
				c.table.owners[name] = i.Namespace
			}
		}
	}
	for _, claim := range c.Claims {
		if c.Owners[claim.Host] == claim.Namespace {
			c.claim(claim)
		}
	}
}

// want gives a host to the Gateways of a namespace, unless another has it.
func (c *compiler) want(of Claim) {
	if c.owns(of.Namespace, of.Host) {
		c.claim(of)
	}
}

// claim gives a host to the Gateways of a namespace.
func (c *compiler) claim(of Claim) {
	c.table.owners[of.Host] = of.Namespace
	if strings.HasPrefix(of.Host, "*.") {
		c.table.deep[of.Host] = true
	}
}

// owns reports whether a namespace has a host, and gives it one that nobody has.
func (c *compiler) owns(namespace, name string) bool {
	if owner, ok := c.table.owners[name]; ok {
		return owner == namespace
	}
	if _, parent, ok := strings.Cut(name, "."); ok && !strings.HasPrefix(name, "*.") {
		if owner, ok := c.table.owners["*."+parent]; ok && owner != namespace {
			return false
		}
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if owner := c.table.deepOwner(parent); owner != "" && owner != namespace {
			return false
		}
	}
	c.table.owners[name] = namespace
	return true
}

func (c *compiler) ingress(i *networkingv1.Ingress) {
	mine := map[string]bool{}
	for _, name := range hostsOf(i) {
		// One that is another's counts, too: looking costs time, and so does saying so.
		if !c.may(i, "Host "+words(name)) {
			break
		}
		if mine[name] = c.owns(i.Namespace, name); !mine[name] {
			c.problem(i, HostConflict, "Host %s is not served for this Ingress: an older Ingress of another namespace has it", words(name))
		}
	}
	var fallback *Backend
	if i.Spec.DefaultBackend != nil {
		fallback = c.backend(i, i.Spec.DefaultBackend)
	}
	for j := range i.Spec.Rules {
		if name := strings.ToLower(i.Spec.Rules[j].Host); mine[name] {
			c.rule(i, name, i.Spec.Rules[j].HTTP, fallback)
		}
	}
	if fallback != nil && mine[""] && c.table.fallback == nil {
		c.table.fallback = leading(fallback)
	}
	c.tls(i, mine)
}

// may counts what a namespace has, and reports whether there is room for one more. An
// Ingress is told once that there is none.
func (c *compiler) may(i *networkingv1.Ingress, what string) bool {
	if c.paths[i.Namespace] < c.MaxPaths {
		c.paths[i.Namespace]++
		return true
	}
	if !c.full[i] {
		c.full[i] = true
		c.problem(i, TooManyPaths, "%s, and what follows, is not served: the Ingresses of the namespace have more than %d hosts and paths", what, c.MaxPaths)
	}
	return false
}

// words name a host in a message.
func words(name string) string {
	if name == "" {
		return `"" (all that no rule names)`
	}
	return fmt.Sprintf("%q", name)
}

func (c *compiler) host(name string) *host {
	parent, wildcard := strings.CutPrefix(name, "*.")
	switch {
	case name == "":
		if c.table.other == nil {
			c.table.other = newHost()
		}
		return c.table.other
	case wildcard:
		if c.table.wildcards[parent] == nil {
			c.table.wildcards[parent] = newHost()
		}
		return c.table.wildcards[parent]
	}
	if c.table.hosts[name] == nil {
		c.table.hosts[name] = newHost()
	}
	return c.table.hosts[name]
}

func (c *compiler) rule(i *networkingv1.Ingress, name string, http *networkingv1.HTTPIngressRuleValue, fallback *Backend) {
	h := c.host(name)
	if h.fallback == nil && fallback != nil {
		h.fallback = leading(fallback)
	}
	if http == nil {
		return
	}
	for j := range http.Paths {
		p := &http.Paths[j]
		if !c.may(i, fmt.Sprintf("Path %q of host %s", p.Path, words(name))) {
			return
		}
		to := c.backend(i, &p.Backend)
		if to == nil {
			continue
		}
		exact := p.PathType != nil && *p.PathType == networkingv1.PathTypeExact
		if !h.add(exact, cmp.Or(p.Path, "/"), to) {
			c.problem(i, PathConflict, "Path %q of host %s is not served for this Ingress: an older rule has it", p.Path, words(name))
		}
	}
}

func (c *compiler) tls(i *networkingv1.Ingress, mine map[string]bool) {
	rules := false // an entry without hosts was there
	for j := range i.Spec.TLS {
		t := &i.Spec.TLS[j]
		hosts := t.Hosts
		if t.SecretName == "" || len(hosts) == 0 && rules {
			continue // the certificate of the plugin, or of an entry before
		}
		if len(hosts) == 0 { // those of the rules
			rules = true
			for k := range i.Spec.Rules {
				hosts = append(hosts, i.Spec.Rules[k].Host)
			}
		}
		wants := Certificate{Ingress: i, Secret: SecretName{i.Namespace, t.SecretName}}
		if !c.mayRead(i.Namespace, wants.Secret) {
			c.problem(i, TooManySecrets, "Secret %q, and what follows, is not read: the Ingresses of the namespace name more than %d", t.SecretName, MaxSecrets)
			return
		}
		for _, name := range hosts {
			name = strings.ToLower(name)
			if name == "" || !mine[name] {
				continue
			}
			if there, ok := c.table.secrets[name]; !ok {
				c.table.secrets[name] = wants.Secret
			} else if there != wants.Secret {
				continue
			}
			wants.Hosts = append(wants.Hosts, name)
		}
		if len(wants.Hosts) > 0 {
			c.certificates = append(c.certificates, wants)
		}
	}
}

// mayRead reports whether a Secret is among those that are read for a namespace.
func (c *compiler) mayRead(payer string, s SecretName) bool {
	there := c.secrets[payer]
	if there == nil {
		there = map[SecretName]bool{}
		c.secrets[payer] = there
	}
	if !there[s] && len(there) >= MaxSecrets {
		return false
	}
	there[s] = true
	return true
}

// backend returns that of a rule, or nil where it cannot be one. A Service that is missing,
// or has no such port, has a backend without endpoints: what it is asked for is answered 503.
func (c *compiler) backend(i *networkingv1.Ingress, b *networkingv1.IngressBackend) *Backend {
	if b.Service == nil {
		c.problem(i, UnsupportedBackend, "Backends other than Services are not served")
		return nil
	}
	there, reason := c.service(backendKey{SecretName{i.Namespace, b.Service.Name}, b.Service.Port, false, i.Namespace})
	switch reason {
	case MissingService:
		c.problem(i, reason, "Service %q is not found", b.Service.Name)
	case UnsupportedBackend:
		c.problem(i, reason, "Service %q is of type ExternalName, which is not served", b.Service.Name)
	case MissingServicePort:
		c.problem(i, reason, "Service %q has no TCP port %s", b.Service.Name, portWords(b.Service.Port))
	case TooManyEndpoints:
		c.problem(i, reason, "Service %q has not all of its endpoints here: those of the namespace's Ingresses have more than %d", b.Service.Name, maxLooks)
	}
	return there
}

// service returns the backend of a port of a Service, and what is wrong with it. Looking at
// its endpoints counts for the payer.
func (c *compiler) service(key backendKey) (*Backend, string) {
	c.table.services[key.SecretName] = true
	there := c.backends[key]
	if there == nil {
		there = (&Backend{Namespace: key.Namespace, Service: key.Name, Payer: key.payer, Scheme: HTTP}).shuffled()
		c.backends[key] = there
	}
	s := c.Service(key.Namespace, key.Name)
	if s == nil {
		return there, MissingService
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return there, UnsupportedBackend
	}
	port := portOf(s, key.port)
	if port == nil {
		return there, MissingServicePort
	}
	if there.Scheme = schemeOf(port); key.grpc && port.AppProtocol == nil {
		there.Scheme = H2C
	}
	if there.Endpoints == nil {
		left := c.looks[key.payer]
		if left == nil {
			left = ptr.To(maxLooks)
			c.looks[key.payer] = left
		}
		there.Endpoints = endpoints(c.Slices(key.Namespace, key.Name), port.Name, left)
		if *left <= 0 {
			return there, TooManyEndpoints
		}
	}
	return there, ""
}

func portOf(s *corev1.Service, wanted networkingv1.ServiceBackendPort) *corev1.ServicePort {
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if wanted.Name != "" && p.Name == wanted.Name || wanted.Name == "" && p.Port == wanted.Number {
			return p
		}
	}
	return nil
}

func portWords(p networkingv1.ServiceBackendPort) string {
	if p.Name != "" {
		return fmt.Sprintf("%q", p.Name)
	}
	return fmt.Sprint(p.Number)
}

// schemeOf goes by the application protocol of a port.
func schemeOf(p *corev1.ServicePort) Scheme {
	if p.AppProtocol == nil {
		return HTTP
	}
	switch *p.AppProtocol {
	case "kubernetes.io/h2c":
		return H2C
	case "https", "kubernetes.io/wss":
		return HTTPS
	}
	return HTTP // http, kubernetes.io/ws and what others name as they like
}
