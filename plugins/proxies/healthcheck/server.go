package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"pintle.dev/pintle/plugins/proxies/measures"
	"pintle.dev/pintle/sdk/proxy"
)

const (
	// defaultAddress is kube-proxy's.
	defaultAddress = "0.0.0.0:10256"
	// timeout is how long a change may wait for the data path to show it.
	timeout = time.Minute
	// retry is the time between two tries to listen on an address that is taken.
	retry = 5 * time.Second
	// patience is how long one connection may take.
	patience = 5 * time.Second
)

// SetAddress puts the default where none is given and checks the address.
func SetAddress(address **string) error {
	if *address == nil {
		text := defaultAddress
		*address = &text
	}
	if **address == "" {
		return nil
	}
	if _, err := netip.ParseAddrPort(**address); err != nil {
		return fmt.Errorf("healthzBindAddress %q: want an address and a port such as %s, or nothing", **address, defaultAddress)
	}
	return nil
}

// Server is the health of one proxy and its services.
type Server struct {
	log    *slog.Logger
	now    func() time.Time
	ctx    context.Context //nolint:containedctx // ends what listens
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	queued   time.Time // the oldest change that the data path does not show; zero: none
	updated  time.Time
	eligible bool
	services map[proxy.Name]*service
	// on are the addresses that health checks of services are served on; restricted says that
	// there are such, else all are.
	on         []netip.Addr
	restricted bool
}

// service is what listens for one service.
type service struct {
	port    int
	local   [2]int                      // ready endpoints on this node, of IPv4 and of IPv6
	servers map[netip.Addr]*http.Server // by address; the zero one stands for all
}

func (s *service) close() {
	for at, server := range s.servers {
		server.Close()
		delete(s.servers, at)
	}
}

// New begins to serve /healthz and /livez on the address; with none nowhere.
func New(log *slog.Logger, address string) *Server {
	s := &Server{log: log, now: time.Now, services: map[proxy.Name]*service{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if address != "" {
		s.wg.Go(func() { s.serve(address) })
	}
	return s
}

// Close ends everything. A nil server has nothing to end.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.cancel()
	s.mu.Lock()
	for name, svc := range s.services {
		svc.close()
		delete(s.services, name)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// Queued says that a change is there which the data path does not show yet.
func (s *Server) Queued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued.IsZero() {
		s.queued = s.now()
	}
}

// Updated says that the data path shows everything.
func (s *Server) Updated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued, s.updated = time.Time{}, s.now()
}

// healthy: a change that waits too long is not. The caller holds mu.
func (s *Server) healthy() bool {
	return s.queued.IsZero() || s.now().Sub(s.queued) < timeout
}

// Sync listens for the services that have a port for health checks, and no
// others, and counts their endpoints. A port that is taken is tried again with
// the next call.
func (s *Server) Sync(state *proxy.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eligible = state.Node != nil && !state.Node.GetIneligible()
	wanted := map[proxy.Name]int{}
	for name, svc := range state.Services {
		if port := int(svc.GetHealthCheckNodePort()); port > 0 {
			wanted[name] = port
		}
	}
	for name, svc := range s.services {
		if wanted[name] != svc.port {
			svc.close()
			delete(s.services, name)
		}
	}
	for name, port := range wanted {
		svc := s.services[name]
		if svc == nil {
			svc = &service{port: port, servers: map[netip.Addr]*http.Server{}}
			s.services[name] = svc
		}
		svc.local = localReady(state, name)
	}
	s.listen()
}

// ServeOn has health checks of services served on some addresses of this machine alone, which
// are those of node ports. Without a call they are served on all, as kube-proxy does where
// nodePortAddresses names none.
func (s *Server) ServeOn(addresses []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.restricted = slices.Clone(addresses), true
	s.listen()
}

// listen opens what is missing and closes what is not wanted. An address that cannot be
// listened on leaves the others be, and is tried again with the next call. The caller holds mu.
func (s *Server) listen() {
	addresses := s.on
	if !s.restricted {
		addresses = []netip.Addr{{}}
	}
	for name, svc := range s.services {
		for at, server := range svc.servers {
			if !slices.Contains(addresses, at) {
				server.Close()
				delete(svc.servers, at)
			}
		}
		for _, at := range addresses {
			if svc.servers[at] != nil {
				continue
			}
			server, err := s.open(name, at, svc.port)
			if err != nil {
				s.log.Error("the health check of a service is not served; load balancers take this node for one without endpoints", "service", name.String(), "address", hostOf(at), "port", svc.port, "error", err)
				continue
			}
			svc.servers[at] = server
		}
	}
}

// hostOf is an address as listeners take it: of both families for none, where the machine
// has both.
func hostOf(at netip.Addr) string {
	if !at.IsValid() {
		return ""
	}
	return at.String()
}

// localReady counts the addresses on this node that are ready, of either family.
func localReady(state *proxy.State, name proxy.Name) (counts [2]int) {
	ips := map[netip.Addr]bool{}
	for _, port := range state.Endpoints[name].GetPorts() {
		for _, e := range port.GetEndpoints() {
			if e.GetLocal() && e.GetReady() {
				if ip, err := netip.ParseAddr(e.GetIp()); err == nil {
					ips[ip.Unmap()] = true
				}
			}
		}
	}
	for ip := range ips {
		counts[familyOf(ip)]++
	}
	return counts
}

func familyOf(ip netip.Addr) int {
	if ip.Is4() {
		return 0
	}
	return 1
}

// askedBy is the family of the address that a request came to: as kube-proxy does, each family
// counts its own endpoints.
func askedBy(r *http.Request) int {
	if address, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return familyOf(address.AddrPort().Addr().Unmap())
	}
	return 0
}

// open listens for one service at one address, or at all. The caller holds mu.
func (s *Server) open(name proxy.Name, at netip.Addr, port int) (*http.Server, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(hostOf(at), strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	server := newServer(func(w http.ResponseWriter, r *http.Request) { s.answerService(w, name, askedBy(r)) })
	s.wg.Go(func() { s.run(server, listener) })
	return server, nil
}

// newServer serves strangers: each has one answer and little time for it.
func newServer(handle http.HandlerFunc) *http.Server {
	server := &http.Server{
		Handler: handle, ReadTimeout: patience, WriteTimeout: patience, MaxHeaderBytes: 4096,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	return server
}

func (s *Server) run(server *http.Server, listener net.Listener) {
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("a health check ended", "address", listener.Addr().String(), "error", err)
	}
}

// serviceHealth is kube-proxy's answer on a healthCheckNodePort.
type serviceHealth struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

func (s *Server) answerService(w http.ResponseWriter, name proxy.Name, family int) {
	s.mu.Lock()
	svc := s.services[name]
	answer := serviceHealth{ServiceProxyHealthy: s.healthy()}
	if svc != nil {
		answer.LocalEndpoints = svc.local[family]
	}
	s.mu.Unlock()
	answer.Service.Namespace, answer.Service.Name = name.Namespace, name.Name
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(answer.LocalEndpoints))
	write(w, answer.LocalEndpoints > 0 && answer.ServiceProxyHealthy, answer)
}

// proxyHealth is kube-proxy's answer on /healthz and /livez.
type proxyHealth struct {
	LastUpdated  time.Time               `json:"lastUpdated"`
	CurrentTime  time.Time               `json:"currentTime"`
	NodeEligible *bool                   `json:"nodeEligible,omitempty"` // on /healthz
	Healthy      bool                    `json:"healthy"`
	Status       map[string]familyHealth `json:"status,omitempty"`
}

type familyHealth struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// answerProxy: the node counts for those who send it traffic, on /healthz.
func (s *Server) answerProxy(w http.ResponseWriter, withNode bool) {
	s.mu.Lock()
	health := proxyHealth{LastUpdated: s.updated, CurrentTime: s.now(), Healthy: s.healthy()}
	if !s.updated.IsZero() {
		health.Status = map[string]familyHealth{"IPv4": {s.updated, health.Healthy}}
	}
	good := health.Healthy
	if withNode {
		eligible := s.eligible
		health.NodeEligible, good = &eligible, good && eligible
	}
	s.mu.Unlock()
	if good {
		// Older readers take an old time for a proxy that stands still.
		health.LastUpdated = health.CurrentTime
	}
	measures.Health(withNode, write(w, good, health))
}

// write answers, and returns the code.
func write(w http.ResponseWriter, good bool, answer any) int {
	maps.Copy(w.Header(), http.Header{"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"}})
	code := http.StatusServiceUnavailable
	if good {
		code = http.StatusOK
	}
	w.WriteHeader(code)
	// A client that went away needs no answer.
	_ = json.NewEncoder(w).Encode(answer)
	return code
}

// serve serves the proxy's own health until the server ends. Another proxy of
// this machine may have the address for a while.
func (s *Server) serve(address string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { s.answerProxy(w, true) })
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { s.answerProxy(w, false) })
	for warned := false; ; {
		listener, err := new(net.ListenConfig).Listen(s.ctx, "tcp", address)
		if err == nil {
			server := newServer(mux.ServeHTTP)
			stop := context.AfterFunc(s.ctx, func() { server.Close() })
			s.run(server, listener)
			stop()
			return
		}
		if s.ctx.Err() != nil {
			return
		}
		if !warned {
			s.log.Warn("the proxy's health is not served yet; it is tried again until the address is free", "healthzBindAddress", address, "error", err)
			warned = true
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}
