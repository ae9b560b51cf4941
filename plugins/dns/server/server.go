package server

import (
	"context"
	"errors"
	"fmt"
	golog "log"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"

	"pintle.dev/pintle/plugins/dns/corefile"
	"pintle.dev/pintle/sdk/proxy"
)

// Server is CoreDNS with the life cycle of a proxy.
type Server struct {
	verified   bool   // it may read pods
	resolvConf string // the machine's

	mu       sync.Mutex
	log      *slog.Logger
	instance *caddy.Instance
	metrics  *exposition
	serves   []*proxy.ServedPort
	question string // a name that the cluster has
}

var _ proxy.Proxy = (*Server)(nil)

// New returns a server that is not started. verified: its manifest asks for the right
// to read pods.
func New(verified bool) *Server { return &Server{verified: verified, resolvConf: resolvConf} }

// Probe implements proxy.Proxy.
func (s *Server) Probe(_ context.Context, config []byte) error {
	_, err := corefile.Decode(config, s.verified)
	return err
}

// Start implements proxy.Proxy.
func (s *Server) Start(ctx context.Context, o proxy.Options) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = o.Logger
	if s.instance != nil {
		return errors.New("the server runs already")
	}
	c, err := corefile.Decode(o.Config, s.verified)
	if err != nil {
		return err
	}
	switch {
	case len(o.NodeIPs) == 0 || net.ParseIP(o.NodeIPs[0]) == nil:
		return errors.New("the node has no address to listen at")
	case o.APISocket == "":
		return errors.New("there is no socket to the API")
	case o.ClusterDomain == "":
		return errors.New("the cluster has no domain")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end(ctx))
		}
	}()
	node := corefile.Node{Address: o.NodeIPs[0], Domain: o.ClusterDomain, Verified: s.verified}
	node.Clients = append(append(append([]string{}, o.NodeIPs...), "127.0.0.0/8", "::1"), o.ClusterCIDRs...)
	node.Clients = append(node.Clients, o.PodCIDRs...)
	allow, err := parseRanges(node.Clients)
	if err != nil {
		return fmt.Errorf("ranges of pods: %w", err)
	}
	own, err := parseRanges(o.ServiceCIDRs)
	if err != nil {
		return fmt.Errorf("range of services: %w", err)
	}
	if node.Upstreams, err = upstreams(s.resolvConf, own, s.log); err != nil {
		return err
	}
	if node.Port, err = s.port(node.Address, c.Port); err != nil {
		return err
	}
	text, err := corefile.Render(&c, &node)
	if err != nil {
		return err
	}
	s.log.Debug("starts by this Corefile", "corefile", text)
	apiSocket.Store(&o.APISocket)
	quiet.Do(hush)
	instance, err := caddy.Start(caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(text), ServerTypeName: "dns"})
	s.instance = instance
	if err != nil {
		return fmt.Errorf("CoreDNS: %w", err)
	}
	s.question = dns.Fqdn("kubernetes.default.svc." + o.ClusterDomain)
	s.serves = []*proxy.ServedPort{
		{Name: "dns", Protocol: "UDP", Address: node.Address, Port: int32(node.Port)},
		{Name: "dns-tcp", Protocol: "TCP", Address: node.Address, Port: int32(node.Port)},
	}
	if c.MetricsPort > 0 {
		// Without them there still is a DNS.
		if listener, err := net.Listen("tcp", net.JoinHostPort(node.Address, strconv.Itoa(c.MetricsPort))); err != nil {
			s.log.Warn("metrics are not served; the key metricsPort names another port, or -1 for none", "error", err)
		} else {
			s.metrics = serveMetrics(listener, allow, s.log)
			s.serves = append(s.serves, &proxy.ServedPort{Name: "metrics", Protocol: "TCP", Address: node.Address, Port: int32(c.MetricsPort)})
		}
	}
	s.log.Info("CoreDNS answers", "address", node.Address, "port", node.Port, "upstreams", node.Upstreams, "domain", node.Domain)
	return nil
}

// quiet is once a process: CoreDNS's log is the process's.
var quiet sync.Once

// hush sends the log to where the kernel reads it: standard output is the handshake's.
func hush() {
	clog.SetOutput(os.Stderr)
	golog.SetOutput(os.Stderr)
	golog.SetFlags(0)
	dnsserver.Quiet, caddy.Quiet = true, true
	caddy.AppName = "CoreDNS"
}

// port finds one that is free for UDP and TCP: the wanted one, else the default, else
// any. CoreDNS shares ports that are taken, so it is found out before.
func (s *Server) port(address string, wanted int) (int, error) {
	if wanted > 0 {
		_, err := free(address, wanted)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; another program has it: set port in the bundle's configuration, or leave it out", err)
		}
		return wanted, err
	}
	port, err := free(address, corefile.DefaultPort)
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
		return port, err
	}
	for range 16 {
		if port, err = free(address, 0); err == nil {
			s.log.Info("another program has the default port; a free one is used", "default", corefile.DefaultPort, "port", port)
			return port, nil
		}
	}
	return 0, err
}

// free opens and closes a port, of the operating system's choice for 0.
func free(address string, port int) (int, error) {
	u, err := net.ListenPacket("udp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	defer u.Close()
	port = u.LocalAddr().(*net.UDPAddr).Port
	t, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	return port, t.Close()
}

// Apply implements proxy.Proxy: CoreDNS watches the API itself.
func (s *Server) Apply(context.Context, *proxy.Diff) error { return nil }

// asks for this long at most whether the server answers.
const statusTimeout = 2 * time.Second

// Status implements proxy.Proxy: the server is asked as a pod asks it.
func (s *Server) Status() proxy.Status {
	s.mu.Lock()
	serves, question := s.serves, s.question
	s.mu.Unlock()
	if len(serves) == 0 {
		return proxy.Status{Message: proxy.ErrNotStarted.Error()}
	}
	q := new(dns.Msg)
	q.SetQuestion(question, dns.TypeA)
	c := dns.Client{Timeout: statusTimeout}
	a, _, err := c.Exchange(q, net.JoinHostPort(serves[0].GetAddress(), strconv.Itoa(int(serves[0].GetPort()))))
	switch {
	case err != nil:
		return proxy.Status{Message: fmt.Sprintf("it does not answer: %v", err), Serves: serves}
	case a.Rcode == dns.RcodeServerFailure:
		return proxy.Status{Message: "it has not read the cluster's services yet", Serves: serves}
	}
	return proxy.Status{Ready: true, Serves: serves}
}

// Stop implements proxy.Proxy. There is nothing that could be left.
func (s *Server) Stop(ctx context.Context, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(ctx)
}

func (s *Server) end(ctx context.Context) error {
	s.serves = nil
	var faults []error
	if s.instance != nil {
		faults = append(faults, s.instance.ShutdownCallbacks()...)
		if err := s.instance.Stop(); err != nil {
			faults = append(faults, fmt.Errorf("stop CoreDNS: %w", err))
		}
		s.instance = nil
	}
	if s.metrics != nil {
		faults = append(faults, s.metrics.close(ctx))
		s.metrics = nil
	}
	return errors.Join(faults...)
}
