package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

// Serve serves proxies by name until the kernel asks the process to stop.
func Serve(proxies map[string]Proxy) {
	if err := transport.Serve(ServiceOf(proxies)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ServiceOf is Serve for a bundle that holds other kinds as well.
func ServiceOf(proxies map[string]Proxy) transport.Service {
	s := &service{proxies: map[string]*served{}}
	for name, p := range proxies {
		s.proxies[name] = &served{proxy: p}
	}
	return s
}

type served struct {
	mu      sync.Mutex // Start, Apply and Stop are called one at a time
	proxy   Proxy
	started bool
	halted  bool // a stop of it failed, and is not finished
	config  []byte
}

// service is the bundle's side of the process's life-cycle.
type service struct {
	proxies map[string]*served
}

// server serves the wire contract over it.
type server struct {
	contractv1.UnimplementedProxiesServer
	*service
}

var _ transport.Service = (*service)(nil)

func (s *service) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterProxiesServer(r, &server{service: s})
}

func (s *service) Describe() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, name := range slices.Sorted(maps.Keys(s.proxies)) {
		list = append(list, &contractv1.PluginDescription{Name: name, Kind: "proxy"})
	}
	return list
}

func (s *service) Configure(name string, config []byte) error {
	if len(config) > 0 && !json.Valid(config) {
		return fmt.Errorf("configuration of %s: it is no JSON", name)
	}
	p, err := s.get(name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = config
	return nil
}

// Health is the process's; the data path's is asked by Status.
func (s *service) Health() error { return nil }

// Stop leaves the data path as it is: the kernel stops proxies by name before.
func (s *service) Stop(ctx context.Context) error {
	var failures []error
	for name, p := range s.proxies {
		p.mu.Lock()
		if p.started {
			if err := p.proxy.Stop(ctx, false); err != nil {
				failures = append(failures, fmt.Errorf("proxy %s: %w", name, err))
			}
			p.started = false
		}
		p.mu.Unlock()
	}
	return errors.Join(failures...)
}

func (s *service) get(name string) (*served, error) {
	if p := s.proxies[name]; p != nil {
		return p, nil
	}
	return nil, status.Error(codes.NotFound, fmt.Sprintf("%v: %s", ErrUnknown, name))
}

// configured prefers the configuration of the call over that of Configure.
func (p *served) configured(config []byte) []byte {
	if len(config) == 0 {
		return p.config
	}
	return config
}

func (s *server) Probe(ctx context.Context, req *contractv1.ProxyProbe) (*contractv1.ProxyProbed, error) {
	p, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.proxy.Probe(ctx, p.configured(req.GetConfig())); err != nil {
		return &contractv1.ProxyProbed{Reason: err.Error()}, nil
	}
	return &contractv1.ProxyProbed{Usable: true}, nil
}

func (s *server) Start(ctx context.Context, req *contractv1.ProxyStart) (*contractv1.ProxyStarted, error) {
	p, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started && p.halted {
		if err := p.proxy.Stop(ctx, false); err != nil {
			return nil, status.Error(codes.Unavailable, "finish its stop before it starts: "+err.Error())
		}
		p.started, p.halted = false, false
	}
	if p.started {
		return &contractv1.ProxyStarted{Message: "was started before"}, nil
	}
	// The call's context ends with the call; the proxy goes on.
	if err := p.proxy.Start(context.WithoutCancel(ctx), Options{
		Name: req.GetName(), Config: p.configured(req.GetConfig()), NodeName: req.GetNodeName(),
		NodeIPs: req.GetNodeIps(), PodCIDRs: req.GetPodCidrs(), ClusterCIDRs: req.GetClusterCidrs(),
		ServiceCIDRs: req.GetServiceCidrs(), Zone: req.GetZone(),
		StateDirectory: req.GetStateDirectory(), DataDirectory: req.GetDataDirectory(), APISocket: req.GetApiSocket(), ClusterDomain: req.GetClusterDomain(),
		Logger: transport.Logger().With("proxy", req.GetName()),
	}); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	p.started = true
	return &contractv1.ProxyStarted{}, nil
}

func (s *server) Apply(stream grpc.BidiStreamingServer[contractv1.ProxyApply, contractv1.ProxyApplied]) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p, err := s.get(req.GetName())
		if err != nil {
			return err
		}
		begin := time.Now()
		applied := &contractv1.ProxyApplied{Generation: req.GetDiff().GetGeneration()}
		if err := p.apply(stream.Context(), req.GetDiff()); err != nil {
			applied.Error = err.Error()
		}
		applied.DurationNanoseconds = time.Since(begin).Nanoseconds()
		if err := stream.Send(applied); err != nil {
			return err
		}
	}
}

func (p *served) apply(ctx context.Context, diff *Diff) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return ErrNotStarted
	}
	return p.proxy.Apply(ctx, diff)
}

func (s *server) Status(_ context.Context, req *contractv1.ProxyStatusRequest) (*contractv1.ProxyStatus, error) {
	p, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	st := p.proxy.Status()
	return &contractv1.ProxyStatus{
		Ready: st.Ready, Message: st.Message, Generation: st.Generation,
		Services: uint32(st.Services), Endpoints: uint32(st.Endpoints), Serves: st.Serves,
	}, nil
}

func (s *server) Stop(ctx context.Context, req *contractv1.ProxyStop) (*contractv1.ProxyStopped, error) {
	p, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		if err := p.proxy.Stop(ctx, req.GetCleanup()); err != nil {
			p.halted = true
			return nil, status.Error(codes.Internal, err.Error())
		}
		p.started, p.halted = false, false
	}
	return &contractv1.ProxyStopped{}, nil
}
